//! Puts the built web page (`web/dist`) into the program.
//!
//! The files are copied, so that what was compiled does not point back into a clone that may be
//! gone. Without a built page the list is empty and the server says how to build it.
#![allow(
    clippy::print_stdout,
    reason = "this is how a build script speaks to cargo"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// More than a page of ours will ever have; a folder with more is something else.
const MAX_FILES: usize = 1000;

fn main() {
    let page = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // A folder that is not there would make cargo ask again at every build.
    let _ = fs::create_dir_all(&page);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", page.display());
    let out = PathBuf::from(variable("OUT_DIR"));
    let copies = out.join("page");
    let _ = fs::remove_dir_all(&copies);
    fs::create_dir_all(&copies).unwrap_or_else(|error| panic!("{}: {error}", copies.display()));
    let mut files = Vec::new();
    collect(&page, &mut files);
    files.sort();
    let mut table = "&[\n".to_owned();
    for (number, file) in files.iter().enumerate() {
        let copy = copies.join(number.to_string());
        fs::copy(file, &copy).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let path = file
            .strip_prefix(&page)
            .unwrap_or(file)
            .to_string_lossy()
            .replace('\\', "/");
        let bytes = format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/page/{number}\"))");
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "    PageFile {{ path: {:?}, bytes: {bytes} }},",
            format!("/{path}")
        );
    }
    table.push_str("]\n");
    let list = out.join("page.rs");
    fs::write(&list, table).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
        assert!(
            files.len() <= MAX_FILES,
            "{} has more than {MAX_FILES} files",
            folder.display()
        );
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
