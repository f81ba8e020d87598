//! What cargo reports of the workspace and its dependencies on this platform.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub struct Metadata {
    pub packages: Vec<Package>,
}

#[derive(Debug, Default)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    /// The folder's name beneath `crates/`, for our own crates.
    pub folder: Option<String>,
    pub dependencies: Vec<Dependency>,
}

/// An edge to `Metadata::packages[package]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    pub package: usize,
    pub kind: DependencyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyKind {
    Normal,
    Build,
    Development,
}

impl Metadata {
    /// Calls the cargo that runs this test. Nothing is downloaded again.
    pub fn load() -> Result<Self> {
        let version = cargo(&["-vV"])?;
        let host = version
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .context("cargo -vV names no host")?;
        let text = cargo(&[
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            host.trim(),
        ])?;
        Self::parse(&serde_json::from_str(&text)?).context("cargo metadata has an unknown shape")
    }

    pub fn ours(&self) -> impl Iterator<Item = (&Package, &str)> {
        self.packages
            .iter()
            .filter_map(|package| Some((package, package.folder.as_deref()?)))
    }

    /// Everything that is linked into a package: its normal dependencies and theirs, without
    /// itself.
    pub fn linked_into(&self, package: &Package) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Package> = vec![package];
        while let Some(package) = open.pop() {
            let normal = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind == DependencyKind::Normal);
            for dependency in normal {
                if seen.insert(dependency.package) {
                    open.push(&self.packages[dependency.package]);
                }
            }
        }
        seen.into_iter()
            .map(|index| self.packages[index].name.as_str())
            .collect()
    }

    fn parse(document: &Value) -> Option<Self> {
        let packages = document["packages"].as_array()?;
        let indices: BTreeMap<&str, usize> = packages
            .iter()
            .enumerate()
            .filter_map(|(index, package)| Some((package["id"].as_str()?, index)))
            .collect();
        let mut packages: Vec<Package> =
            packages.iter().map(parse_package).collect::<Option<_>>()?;
        for node in document["resolve"]["nodes"].as_array()? {
            let from = *indices.get(node["id"].as_str()?)?;
            for edge in node["deps"].as_array()? {
                let package = *indices.get(edge["pkg"].as_str()?)?;
                for kind in edge["dep_kinds"].as_array()? {
                    let kind = match kind["kind"].as_str() {
                        None => DependencyKind::Normal,
                        Some("build") => DependencyKind::Build,
                        Some("dev") => DependencyKind::Development,
                        Some(_) => return None,
                    };
                    packages[from]
                        .dependencies
                        .push(Dependency { package, kind });
                }
            }
        }
        Some(Self { packages })
    }
}

fn parse_package(package: &Value) -> Option<Package> {
    // A package without a source is ours; its manifest is crates/<folder>/Cargo.toml.
    let folder = match package["source"] {
        Value::Null => Some(
            package["manifest_path"]
                .as_str()?
                .rsplit(['/', '\\'])
                .nth(1)?
                .to_owned(),
        ),
        _ => None,
    };
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        version: package["version"].as_str()?.to_owned(),
        licence: package["license"].as_str().map(str::to_owned),
        folder,
        dependencies: Vec::new(),
    })
}

fn cargo(arguments: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cargo could not be started")?;
    ensure!(
        output.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// A made-up workspace. Every name that starts with `codelab-` is ours, and `edges` are `(from, to,
/// kind)`.
#[cfg(test)]
pub fn sample(names: &[&str], edges: &[(&str, &str, DependencyKind)]) -> Metadata {
    let index = |name: &str| {
        names
            .iter()
            .position(|&other| other == name)
            .expect("an edge between unknown packages")
    };
    let mut packages: Vec<Package> = names
        .iter()
        .map(|&name| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            folder: name.strip_prefix("codelab-").map(str::to_owned),
            ..Package::default()
        })
        .collect();
    for &(from, to, kind) in edges {
        let package = index(to);
        packages[index(from)]
            .dependencies
            .push(Dependency { package, kind });
    }
    Metadata { packages }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cargo_s_answer_becomes_packages_and_edges() -> Result<()> {
        let document = json!({
            "packages": [
                {"id": "1", "name": "codelab-x", "version": "0.1.0", "license": "MIT", "source": null,
                 "manifest_path": "/somewhere/crates/x/Cargo.toml"},
                {"id": "2", "name": "dep", "version": "1.2.3", "license": null, "source": "registry",
                 "manifest_path": "/elsewhere/dep/Cargo.toml"},
            ],
            "resolve": {"nodes": [
                {"id": "1", "deps": [{"pkg": "2", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
                {"id": "2", "deps": []},
            ]},
        });
        let metadata = Metadata::parse(&document).context("shape")?;
        assert_eq!(metadata.packages[0].folder.as_deref(), Some("x"));
        assert_eq!(metadata.packages[1].folder, None);
        let kinds: Vec<_> = metadata.packages[0]
            .dependencies
            .iter()
            .map(|dependency| dependency.kind)
            .collect();
        assert_eq!(kinds, [DependencyKind::Normal, DependencyKind::Development]);
        assert!(Metadata::parse(&json!({"packages": []})).is_none());
        Ok(())
    }
}
