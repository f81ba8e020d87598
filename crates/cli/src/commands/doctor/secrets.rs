//! The server's own secrets: there, long enough, and the same that the database and a running
//! server know.

use codelab_server::{JwtAlgorithm, MasterKey, Secrets};

use super::Subject;
use super::report::DoctorFinding;

const CHECK: &str = "secrets";

pub fn check(
    subject: &Subject,
    audit_key_fits: Option<bool>,
    takes_our_key: Option<bool>,
) -> DoctorFinding {
    let settings = &subject.settings;
    if let Err(error) = Secrets::check(settings) {
        let advice = "Make secrets with `openssl rand -hex 32`, or listen on 127.0.0.1.";
        return DoctorFinding::problem(CHECK, format!("A server does not start: {error}."), advice);
    }
    if let Err(error) = MasterKey::find(settings) {
        return unreadable(&error.to_string());
    }
    if let Err(error) = Secrets::find_internal_key(settings) {
        return unreadable(&error.to_string());
    }
    if audit_key_fits == Some(false) {
        return DoctorFinding::problem(
            CHECK,
            format!(
                "The master key ({}) is not the one that sealed this database's audit log.",
                key_place(subject)
            ),
            "Set CODELAB_MASTER_KEY to the earlier key, or put the earlier master.key back: with another one, earlier \
             decisions cannot be verified.",
        );
    }
    if takes_our_key == Some(false) {
        return DoctorFinding::problem(
            CHECK,
            "The running server refuses the internal key that is configured here.",
            "Set INTERNAL_API_KEY to the key that the server was started with, or restart the server with this one.",
        );
    }
    if let Some(finding) = unreadable_public_key(subject) {
        return finding;
    }
    let short: Vec<&str> = Secrets::short(settings)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    match short.is_empty() {
        true => DoctorFinding::ok(CHECK, described(subject, audit_key_fits.is_some())),
        false => DoctorFinding::warning(
            CHECK,
            format!(
                "Shorter than 32 bytes, and so easier to guess: {}.",
                short.join(", ")
            ),
            "Make longer ones with `openssl rand -hex 32`.",
        ),
    }
}

fn unreadable(error: &str) -> DoctorFinding {
    DoctorFinding::problem(
        CHECK,
        format!("A secret cannot be read: {error}."),
        "Correct the file or its permissions.",
    )
}

fn unreadable_public_key(subject: &Subject) -> Option<DoctorFinding> {
    let jwt = &subject.settings.jwt;
    if jwt.algorithm == JwtAlgorithm::Hs256 {
        return None;
    }
    let why = match &jwt.public_key_file {
        None => "auth.jwt_public_key_file is not set".to_owned(),
        Some(path) => format!("{}: {}", path.display(), std::fs::read(path).err()?),
    };
    let found = format!(
        "Users' tokens are signed with {}, but its public key is missing: {why}.",
        jwt.algorithm.as_str()
    );
    Some(DoctorFinding::problem(
        CHECK,
        found,
        "Set auth.jwt_public_key_file to the PEM file of the key.",
    ))
}

/// Where each comes from. A file that is not there yet is made by the first start.
fn described(subject: &Subject, is_checked: bool) -> String {
    let settings = &subject.settings;
    let secrets = [
        ("INTERNAL_API_KEY", settings.internal_api_key.is_some()),
        ("JWT_SECRET", settings.jwt_secret.is_some()),
        ("CODELAB_MASTER_KEY", settings.master_key.is_some()),
    ];
    let names = |are_given: bool| {
        let named = secrets
            .iter()
            .filter(|(_, is_given)| *is_given == are_given);
        named.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let places = [
        ("From the environment", names(true)),
        ("Generated, in the data folder", names(false)),
    ];
    let places = places
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(location, names)| format!("{location}: {names}."));
    let checked = if is_checked {
        " The master key fits the database."
    } else {
        ""
    };
    format!("{}{checked}", places.collect::<Vec<_>>().join(" "))
}

fn key_place(subject: &Subject) -> String {
    match subject.settings.master_key {
        Some(_) => "CODELAB_MASTER_KEY".to_owned(),
        None => MasterKey::file(&subject.settings.data_dir)
            .display()
            .to_string(),
    }
}
