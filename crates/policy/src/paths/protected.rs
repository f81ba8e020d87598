//! The paths that always ask before they are changed: something runs what is written there, or it
//! changes what asks. Reading them is free.

use std::collections::HashMap;

use super::{fold, wildcard};

/// The protected paths, indexed so that judging a path needs one look-up per component. The sandbox
/// asks about every file of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct ProtectedPaths {
    texts: Vec<String>,
    /// Patterns by their first component, if that is a plain name.
    named: HashMap<String, Vec<Pattern>>,
    /// Patterns whose first component contains `*`.
    wild: Vec<Pattern>,
}

/// Consecutive components, each of which may contain `*`. The pattern matches anywhere in a path,
/// with everything beneath it.
type Pattern = Vec<String>;

impl Default for ProtectedPaths {
    fn default() -> Self {
        let mut protected = Self {
            texts: Vec::new(),
            named: HashMap::new(),
            wild: Vec::new(),
        };
        BUILT_IN.iter().for_each(|pattern| protected.add(pattern));
        protected
    }
}

impl ProtectedPaths {
    pub fn add(&mut self, pattern: &str) {
        let components: Pattern = pattern
            .split(['/', '\\'])
            .filter(|part| !part.is_empty() && *part != ".")
            .map(fold)
            .collect();
        let Some(first) = components.first() else {
            return;
        };
        self.texts.push(pattern.to_owned());
        if first.contains('*') {
            self.wild.push(components);
        } else {
            self.named
                .entry(first.clone())
                .or_default()
                .push(components);
        }
    }

    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub fn covers(&self, components: &[String]) -> bool {
        (0..components.len()).any(|start| {
            let rest = &components[start..];
            self.starting_like(&rest[0]).any(|pattern| {
                pattern.len() <= rest.len()
                    && pattern
                        .iter()
                        .zip(rest)
                        .all(|(pattern, text)| wildcard(pattern, text))
            })
        })
    }

    /// Whether one of the components is the beginning of a pattern of several components.
    pub fn may_lie_beneath(&self, components: &[String]) -> bool {
        components.iter().any(|component| {
            self.starting_like(component)
                .any(|p| p.len() > 1 && wildcard(&p[0], component))
        })
    }

    /// Whether the components end with the beginning of a pattern of several components.
    pub fn goes_on_beneath(&self, components: &[String]) -> bool {
        (0..components.len()).any(|start| {
            let rest = &components[start..];
            self.starting_like(&rest[0]).any(|pattern| {
                pattern.len() > rest.len()
                    && pattern
                        .iter()
                        .zip(rest)
                        .all(|(pattern, text)| wildcard(pattern, text))
            })
        })
    }

    fn starting_like(&self, component: &str) -> impl Iterator<Item = &Pattern> {
        let first = component.as_bytes().first().copied();
        let alike = move |pattern: &&Pattern| {
            pattern[0]
                .bytes()
                .next()
                .is_some_and(|byte| byte == b'*' || Some(byte) == first)
        };
        self.named
            .get(component)
            .into_iter()
            .flatten()
            .chain(self.wild.iter().filter(alike))
    }
}

/// Patterns in the form that [`Protected::add`] takes. They are folded before they are compared, so
/// case does not matter.
const BUILT_IN: &[&str] = &[
    // git: hooks, config, filters and drivers run programs
    ".git",
    ".gitattributes",
    ".gitconfig",
    ".gitmodules",
    ".config/git",
    // other version control: settings that name programs
    ".hg/hgrc*",
    ".hgrc",
    ".jj/repo/config.toml",
    // hook runners
    ".githooks",
    ".husky",
    ".huskyrc*",
    ".lefthook*",
    "lefthook*.json",
    "lefthook*.toml",
    "lefthook*.y*ml",
    ".lintstagedrc*",
    ".overcommit.yml",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    ".simple-git-hooks.*",
    "captainhook.json",
    "simple-git-hooks.*",
    // CodeLab's own configuration, policy and data
    "codelab.toml",
    ".codelab",
    ".config/codelab",
    ".local/share/codelab",
    "application support/codelab",
    // shells and what they load
    ".bash*",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".login",
    ".logout",
    ".profile",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".inputrc",
    ".envrc",
    ".autoenv*",
    ".direnv",
    ".mise",
    ".mise.*toml",
    "mise.*toml",
    "mise/config*.toml",
    ".screenrc",
    ".config/fish",
    ".config/direnv",
    ".config/mise",
    // keys, agents, schedulers, services
    ".ssh",
    ".gnupg",
    ".config/autostart",
    ".config/systemd",
    "launchagents",
    "launchdaemons",
    "crontab",
    // editors and their tasks
    ".vscode/extensions.json",
    ".vscode/launch.json",
    ".vscode/mcp.json",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".vs",
    ".theia",
    ".project",
    ".run",
    "*.code-workspace",
    ".idea",
    ".fleet",
    ".zed",
    ".nova",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".emacs*",
    ".exrc",
    ".gvimrc",
    ".vimrc",
    "_vimrc",
    "_gvimrc",
    ".vim",
    ".nvimrc",
    ".nvim.lua",
    ".lazy.lua",
    ".config/nvim",
    "*.sublime-project",
    ".helix",
    ".lvimrc",
    ".ycm_extra_conf.py",
    ".tmux.conf",
    // other agents' settings and tool servers
    ".claude",
    ".amazonq",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".cursorrules",
    ".gemini",
    ".kiro",
    ".opencode",
    "opencode.json*",
    ".roo",
    ".windsurf",
    ".mcp.json",
    "mcp.json",
    // continuous integration
    ".github/actions",
    ".github/workflows",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".gitlab-ci.yml",
    ".gitlab",
    ".buildkite",
    ".build.yml",
    ".builds",
    ".circleci",
    ".cirrus.star",
    ".cirrus.yml",
    ".drone.star",
    ".drone.yml",
    ".gitpod.yml",
    ".packit.y*ml",
    ".semaphore",
    ".taskcluster.yml",
    ".teamcity",
    ".tekton",
    ".travis.yml",
    ".woodpecker*",
    ".zuul.d",
    ".zuul.y*ml",
    "zuul.d",
    "zuul.y*ml",
    ".appveyor.yml",
    "appveyor.yml",
    ".azure-pipelines",
    "azure-pipelines*.yml",
    "bitbucket-pipelines.yml",
    "bitrise.yml",
    "buildspec*.y*ml",
    "cloudbuild*.y*ml",
    "codemagic.y*ml",
    "jenkinsfile*",
    "wercker.yml",
    // package managers and build tools: settings that name programs to run
    ".bazelrc",
    ".bunfig.toml",
    "bunfig.toml",
    ".cargo/config",
    ".cargo/config.toml",
    ".config/pip",
    ".mvn",
    ".npmrc",
    ".pnpmfile.cjs",
    ".pip",
    ".pypirc",
    ".yarn",
    ".yarnrc",
    ".yarnrc.yml",
    "pip.conf",
    "rust-toolchain",
    "rust-toolchain.toml",
    // loaded by interpreters and debuggers wherever they start
    ".gdbinit",
    ".ipython",
    ".irbrc",
    ".lldbinit",
    ".pdbrc",
    ".pryrc",
    ".psqlrc",
    ".renviron",
    ".rprofile",
    "*.pth",
    "sitecustomize.py",
    "usercustomize.py",
];
