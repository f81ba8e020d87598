//! Where people keep keys, tokens and passwords, and what else a command has no business reading.
//! Commands see little of the home folder anyway; this list counts where the workspace or a
//! toolchain's folder holds such a place.

use std::path::{Path, PathBuf};

use super::view;
use crate::options::WorkspaceOptions;

/// Beneath the home folder.
const IN_HOME: &[&str] = &[
    // keys and agents
    ".ssh",
    ".gnupg",
    ".pki",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".Xauthority",
    // clouds and clusters
    ".aws",
    ".azure",
    ".oci",
    ".boto",
    ".s3cfg",
    ".kube",
    ".docker",
    ".fly",
    ".config/gcloud",
    ".config/doctl",
    ".config/containers/auth.json",
    ".config/rclone",
    ".config/scw",
    ".config/hcloud",
    ".config/heroku",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    ".config/sops",
    ".config/op",
    // code hosts and package registries
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".local/share/uv/credentials",
    ".dotnet/corefx/cryptography/x509stores/my",
    ".stack/upload",
    ".opam/plugins/opam-publish",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet/NuGet.Config",
    ".config/pip/pip.conf",
    ".composer/auth.json",
    // databases, shells' histories
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".python_history",
    ".node_repl_history",
    ".local/share/fish/fish_history",
    // browsers and mail
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    "snap/firefox",
    // agents, CodeLab included
    ".codelab",
    ".config/codelab",
    ".local/share/codelab",
    ".codex",
    ".claude",
    ".claude.json",
    ".gemini",
    ".config/github-copilot",
    ".config/goose",
];

const OF_SYSTEM: &[&str] = &[
    "/etc/codelab",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
];

/// Everything hidden from tools and commands, whether it exists or not.
pub(crate) fn hidden(options: &WorkspaceOptions) -> Vec<PathBuf> {
    let home = options
        .home
        .iter()
        .flat_map(|home| IN_HOME.iter().map(move |name| home.join(name)));
    let system = OF_SYSTEM.iter().map(PathBuf::from);
    let cargo: Vec<PathBuf> = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .into_iter()
        .chain(options.home.as_ref().map(|home| home.join(".cargo")))
        .collect();
    let cargo = cargo.iter().flat_map(|home| {
        let settings = ["config", "config.toml"]
            .map(|name| home.join(name))
            .into_iter()
            .filter(|path| holds_token(path));
        ["credentials", "credentials.toml"]
            .map(|name| home.join(name))
            .into_iter()
            .chain(settings)
    });
    let own = options.data_dir.iter().chain(&options.hidden).cloned();
    // Builds need the rest of these settings, so that they are hidden only where they hold a
    // secret.
    home.chain(cargo)
        .chain(system)
        .chain(own)
        .chain(view::superuser_only(options))
        .collect()
}

fn holds_token(settings: &Path) -> bool {
    std::fs::read_to_string(settings).is_ok_and(|text| text.to_lowercase().contains("token"))
}
