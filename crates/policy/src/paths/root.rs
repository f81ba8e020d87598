//! The workspace's root as text: which absolute paths lie beneath it.

/// The components of an absolute path that names the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspacePrefix(Vec<String>);

impl WorkspacePrefix {
    /// None for a relative path. None for the root of a file system or a folder directly beneath
    /// it, such as `/home`, because everything would be inside.
    pub fn new(path: &str) -> Option<Self> {
        const MIN_COMPONENTS: usize = 2;
        let components = components(path)?;
        (components.len() >= MIN_COMPONENTS).then_some(Self(components))
    }

    /// An absolute path relative to the root, if it is beneath it. Empty for the root itself.
    pub fn relative(&self, path: &str) -> Option<String> {
        let components = components(path)?;
        components
            .strip_prefix(self.0.as_slice())
            .map(|rest| rest.join("/"))
    }
}

/// Applies `.` and `..`. Case counts: a root in other letters is not recognised.
fn components(path: &str) -> Option<Vec<String>> {
    let drive = path.as_bytes().get(1) == Some(&b':');
    if !path.starts_with('/') && !drive {
        return None;
    }
    let mut components = Vec::new();
    for part in path.split(|separator| separator == '/' || (drive && separator == '\\')) {
        match part {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            _ => components.push(part.to_owned()),
        }
    }
    Some(components)
}

#[cfg(test)]
mod tests {
    use super::WorkspacePrefix;

    #[test]
    fn only_what_is_beneath_is_relative() {
        let root = WorkspacePrefix::new("/home/anna/shop/").unwrap();
        for (path, relative) in [
            ("/home/anna/shop", Some("")),
            ("/home/anna/shop/", Some("")),
            ("/home/anna/shop/src/a.rs", Some("src/a.rs")),
            ("/home/anna/./shop//src/../b", Some("b")),
            ("/home/anna/shop-evil/a", None),
            ("/home/anna/shop/../other", None),
            ("/home/anna", None),
            ("/Home/anna/shop/a", None),
            ("src/a.rs", None),
            ("", None),
        ] {
            assert_eq!(root.relative(path).as_deref(), relative, "{path}");
        }
        for path in ["/", "/home", "/home/..", "shop", "~/shop", ""] {
            assert_eq!(WorkspacePrefix::new(path), None, "{path}");
        }
        let windows = WorkspacePrefix::new("C:\\work\\shop").unwrap();
        assert_eq!(
            windows.relative("C:\\work\\shop\\src").as_deref(),
            Some("src")
        );
        assert_eq!(windows.relative("D:\\work\\shop\\src"), None);
    }
}
