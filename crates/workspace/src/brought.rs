//! Files that a workspace brings for CodeLab itself, such as `.mcp.json`. They are read whole and
//! once, beneath the root, and never through a link that leads out.

use std::io::Read as _;
use std::path::Path;

use crate::error::{PathAction, ToolRefusal};
use crate::root::Root;

/// Reads a file beneath the root. `None` if there is none. The error is a sentence for a person.
pub fn read_brought(root: &Path, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    let root = Root::open(root, &[]).map_err(|error| error.to_string())?;
    // A link to nothing is no missing file: it shows where somebody would like a file to be.
    if root.dir().symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let file = root.existing(path, PathAction::Read);
    let file = file.and_then(|place| place.open_file(path));
    let file = file.map_err(|error| match error {
        ToolRefusal::Outside(path) => {
            format!("{path} is a link that leads out of the workspace; it is not read")
        }
        error => error.to_string(),
    })?;
    let mut content = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| format!("{path} cannot be read: {error}"))?;
    if content.len() as u64 > max_bytes {
        return Err(format!(
            "{path} is larger than {max_bytes} bytes; it is not read"
        ));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_bounded_files_beneath_the_root_are_read() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let read = |name: &str| read_brought(&root, name, 8);
        assert_eq!(read("a"), Ok(None));
        std::fs::write(root.join("a"), "12345678").unwrap();
        assert_eq!(read("a"), Ok(Some(b"12345678".to_vec())));
        std::fs::write(root.join("large"), "123456789").unwrap();
        assert!(read("large").unwrap_err().contains("larger than 8 bytes"));
        symlink("a", root.join("inside")).unwrap();
        assert_eq!(read("inside"), Ok(Some(b"12345678".to_vec())));
        std::fs::write(base.path().join("secret"), "s").unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        assert!(
            read("outside")
                .unwrap_err()
                .contains("out of the workspace")
        );
        symlink(base.path().join("secret"), root.join("absolute")).unwrap();
        assert!(
            read("absolute")
                .unwrap_err()
                .contains("out of the workspace")
        );
        symlink("nothing", root.join("dangling")).unwrap();
        assert!(read("dangling").is_err());
        std::fs::create_dir(root.join("folder")).unwrap();
        assert!(read("folder").unwrap_err().contains("not a file"));
    }
}
