//! Rules on the repository that rustc and clippy cannot check but a reader would notice.
//!
//! Each test checks one rule on the whole repository and names every offender as `file:line`. The
//! rules themselves live in the modules beside this file, each with small bad inputs that prove it
//! can fail.

#[path = "tidy/architecture.rs"]
mod architecture;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/glossary.rs"]
mod glossary;
#[path = "tidy/licences.rs"]
mod licences;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/metadata.rs"]
mod metadata;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/repository.rs"]
mod repository;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/traces.rs"]
mod traces;
#[path = "tidy/types.rs"]
mod types;
#[path = "tidy/versions.rs"]
mod versions;

use anyhow::Result;
use glossary::KnownCode;
use links::Targets;
use metadata::Metadata;
use repository::{Repository, TextFile};

/// Programs that must start with `./name` in a fresh clone.
const PROGRAMS: [&str; 9] = [
    "run",
    "test",
    ".ci/run",
    "scripts/cluster",
    "scripts/dependencies",
    "scripts/fixture",
    "scripts/package",
    "tests/mcp_conformance",
    "tests/packages",
];
const MAX_FILE_BYTES: u64 = 1024 * 1024;

fn none(findings: Vec<String>) {
    assert!(
        findings.is_empty(),
        "{} found:\n  {}\n",
        findings.len(),
        findings.join("\n  ")
    );
}

fn every_text(check: impl Fn(&TextFile) -> Vec<String>) -> Result<()> {
    none(Repository::open().texts()?.iter().flat_map(check).collect());
    Ok(())
}

#[test]
fn architecture_lists_exactly_the_crates_that_exist() -> Result<()> {
    let repository = Repository::open();
    let table = architecture::crates(&repository.text("ARCHITECTURE.md")?)?;
    let folders: Vec<String> = repository.manifests()?.into_keys().collect();
    none(architecture::compare(&table, &folders));
    Ok(())
}

#[test]
fn dependencies_between_crates_point_one_way() -> Result<()> {
    let table = architecture::crates(&Repository::open().text("ARCHITECTURE.md")?)?;
    none(dependencies::direction(&Metadata::load()?, &table));
    Ok(())
}

#[test]
fn deciding_crates_reach_no_io() -> Result<()> {
    none(dependencies::io_reached(&Metadata::load()?));
    Ok(())
}

#[test]
fn no_banned_dependency() -> Result<()> {
    none(dependencies::banned(&Metadata::load()?));
    Ok(())
}

#[test]
fn heavy_dependencies_come_once() -> Result<()> {
    none(dependencies::duplicates(&Metadata::load()?));
    Ok(())
}

#[test]
fn third_party_licences_are_allowed() -> Result<()> {
    none(licences::refused(&Metadata::load()?));
    Ok(())
}

#[test]
fn every_crate_takes_the_workspace_lints() -> Result<()> {
    let repository = Repository::open();
    let mut findings = Vec::new();
    for path in repository.manifests()?.values() {
        findings.extend(source::lints_not_inherited(&repository.text(path)?));
    }
    none(findings);
    Ok(())
}

#[test]
fn no_source_file_is_too_long() -> Result<()> {
    every_text(source::too_long)
}

#[test]
fn every_module_says_what_lives_there() -> Result<()> {
    every_text(source::without_module_doc)
}

#[test]
fn nothing_is_unfinished_or_switched_off() -> Result<()> {
    every_text(source::unfinished)
}

#[test]
fn the_server_comes_to_sessions_through_their_users() -> Result<()> {
    every_text(source::ownerless_session)
}

#[test]
fn no_banned_word_in_names() -> Result<()> {
    every_text(names::banned_in_source)
}

#[test]
fn no_two_public_types_have_one_name() -> Result<()> {
    let texts = Repository::open().texts()?;
    none(types::twice(texts.iter().flat_map(types::public).collect()));
    Ok(())
}

#[test]
fn the_glossary_names_code_that_exists() -> Result<()> {
    let repository = Repository::open();
    let document = repository.text("docs/glossary.md")?;
    let rows = glossary::rows(&document)?;
    let texts = repository.texts()?;
    let source = |file: &&TextFile| file.path.contains("/src/") || file.path.ends_with(".sql");
    let known = KnownCode {
        types: texts.iter().flat_map(types::names).collect(),
        files: repository.files()?,
        text: texts
            .iter()
            .filter(source)
            .map(|file| file.text.as_str())
            .collect(),
    };
    let mut findings = glossary::missing_words(&document, &rows);
    findings.extend(glossary::unknown_code(&document, &rows, &known));
    none(findings);
    Ok(())
}

#[test]
fn architecture_names_paths_that_exist() -> Result<()> {
    let repository = Repository::open();
    let targets = Targets::new(&repository.files()?, &repository.texts()?);
    let crates: Vec<String> = repository.manifests()?.into_keys().collect();
    let document = repository.text("ARCHITECTURE.md")?;
    none(links::missing_paths(&document, &crates, &targets));
    Ok(())
}

#[test]
fn links_between_documents_lead_somewhere() -> Result<()> {
    let repository = Repository::open();
    let texts = repository.texts()?;
    let targets = Targets::new(&repository.files()?, &texts);
    let broken = texts.iter().flat_map(|file| links::broken(file, &targets));
    none(broken.collect());
    Ok(())
}

#[test]
fn no_private_word_in_names() -> Result<()> {
    every_text(names::private_in_source)
}

#[test]
fn no_banned_word_in_paths() -> Result<()> {
    none(
        Repository::open()
            .files()?
            .iter()
            .filter_map(|path| names::banned_in_path(path))
            .collect(),
    );
    Ok(())
}

#[test]
fn no_trace_of_one_machine() -> Result<()> {
    every_text(traces::machine_paths)
}

#[test]
fn no_conflict_is_left() -> Result<()> {
    every_text(traces::conflict_markers)
}

#[test]
fn no_private_package_source() -> Result<()> {
    every_text(traces::package_sources)
}

#[test]
fn no_large_file() -> Result<()> {
    let repository = Repository::open();
    let mut findings = Vec::new();
    for path in repository.files()? {
        let bytes = repository.size_bytes(&path)?;
        if bytes > MAX_FILE_BYTES {
            findings.push(format!("{path}: {bytes} bytes, at most {MAX_FILE_BYTES}"));
        }
    }
    none(findings);
    Ok(())
}

#[test]
fn programs_can_be_started() -> Result<()> {
    let repository = Repository::open();
    let mut findings = Vec::new();
    for program in PROGRAMS {
        if !repository.is_executable(program)? {
            findings.push(format!("{program}: no run bit"));
        }
    }
    none(findings);
    Ok(())
}

#[test]
fn the_lock_file_is_tracked() -> Result<()> {
    assert!(
        Repository::open().is_tracked("Cargo.lock")?,
        "Cargo.lock: not tracked by git"
    );
    Ok(())
}

#[test]
fn every_file_has_the_version_of_the_changelog() -> Result<()> {
    let repository = Repository::open();
    let changelog = repository.text("CHANGELOG.md")?;
    let versioned = ["Cargo.toml", "docs/openapi.json", "web/package.json"];
    let files = versioned.map(|path| repository.text(path));
    let files = files.into_iter().collect::<Result<Vec<TextFile>>>()?;
    none(versions::differing(&changelog, &files));
    Ok(())
}

#[test]
fn every_release_has_an_upgrade_fixture() -> Result<()> {
    let repository = Repository::open();
    let changelog = repository.text("CHANGELOG.md")?;
    none(versions::without_fixture(&changelog, &repository.files()?));
    Ok(())
}
