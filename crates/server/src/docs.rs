//! The API document as one page for people, made from the document alone. It needs no script and
//! nothing from elsewhere.

mod schema;

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;
use utoipa::openapi::OpenApi;

use self::schema::{details, reference, type_of};

/// How each way in is said to people.
const WAYS_IN: [(&str, &str); 4] = [
    ("internal_key", "the internal key in X-Internal-Auth"),
    ("internal_bearer", "the internal key as a bearer token"),
    ("user_token", "a user's token as a bearer token"),
    ("login_cookie", "the cookie of a login"),
];

pub(crate) fn docs_html(document: &OpenApi) -> String {
    let document = serde_json::to_value(document).unwrap_or_default();
    let groups = groups(&document);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "CodeLab API" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                link rel="stylesheet" href="/assets/docs.css";
                link rel="icon" type="image/svg+xml" href="/assets/docs-icon.svg";
            }
            body {
                nav aria-label="Contents" {
                    strong { "CodeLab API" }
                    ul {
                        @for (tag, operations) in &groups {
                            li { a href={ "#tag-" (slug(tag)) } { (tag) } " " small { (operations.len()) } }
                        }
                        li { a href="#schemas" { "Schemas" } }
                    }
                }
                main {
                    h1 { "CodeLab API " small { (text(&document["info"]["version"])) } }
                    p { (prose(text(&document["info"]["description"]))) }
                    p { "For programs: " a href="/openapi.json" { "openapi.json" } ". Every address also works with a slash at its end." }
                    @for (tag, operations) in &groups {
                        section id={ "tag-" (slug(tag)) } {
                            h2 { (tag) }
                            @for operation in operations { (operation.html()) }
                        }
                    }
                    section id="schemas" {
                        h2 { "Schemas" }
                        @for (name, schema) in members(&document["components"]["schemas"]) { (details(name, schema)) }
                    }
                }
            }
        }
    };
    page.into_string()
}

struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    about: &'a Value,
}

/// The operations by tag, each in the order of the document.
fn groups(document: &Value) -> Vec<(&str, Vec<Operation<'_>>)> {
    let mut groups: Vec<(&str, Vec<Operation<'_>>)> = Vec::new();
    for (path, item) in members(&document["paths"]) {
        for (method, about) in members(item) {
            let tag = about["tags"][0].as_str().unwrap_or("other");
            let operation = Operation {
                method,
                path,
                about,
            };
            match groups.iter_mut().find(|(known, _)| *known == tag) {
                Some((_, operations)) => operations.push(operation),
                None => groups.push((tag, vec![operation])),
            }
        }
    }
    groups.sort_by_key(|(tag, _)| *tag);
    groups
}

impl Operation<'_> {
    fn html(&self) -> Markup {
        let Self {
            method,
            path,
            about,
        } = self;
        let parameters: Vec<&Value> = about["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        html! {
            details {
                summary {
                    span class={ "method " (method) } { (method.to_uppercase()) } " "
                    code { (path) } " "
                    span class="about" { (prose(text(&about["summary"]))) }
                }
                // A link to something inside opens what is around it.
                div id={ (method) "-" (slug(path)) } {
                    @for paragraph in text(&about["description"]).split("\n\n").filter(|text| !text.is_empty()) {
                        p { (prose(paragraph)) }
                    }
                    p class="access" { (access(&about["security"])) }
                    @if !parameters.is_empty() {
                        h3 { "Parameters" }
                        table {
                            @for parameter in parameters { (parameter_row(parameter)) }
                        }
                    }
                    @if about["requestBody"].is_object() {
                        h3 { "Body" }
                        (content(&about["requestBody"]["content"]))
                    }
                    h3 { "Answers" }
                    table {
                        @for (status, answer) in members(&about["responses"]) {
                            tr {
                                th { (status) }
                                td { (prose(text(&answer["description"]))) }
                                td { (content(&answer["content"])) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn parameter_row(parameter: &Value) -> Markup {
    let required = parameter["required"] == Value::Bool(true);
    html! {
        tr {
            th { code { (text(&parameter["name"])) } @if !required { small { " optional" } } }
            td { (text(&parameter["in"])) }
            td { (type_of(&parameter["schema"])) }
            td { (prose(text(&parameter["description"]))) }
        }
    }
}

/// What a body is, by its media type.
fn content(content: &Value) -> Markup {
    html! {
        @for (media, body) in members(content) {
            div {
                @match reference(&body["schema"]) {
                    Some(name) => a href={ "#schema-" (name) } { (name) },
                    None => (type_of(&body["schema"])),
                }
                " " small { (media) }
            }
        }
    }
}

fn access(security: &Value) -> Markup {
    let schemes: Vec<&str> = security
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(members)
        .map(|(name, _)| name)
        .collect();
    let open = security
        .as_array()
        .is_some_and(|ways| ways.iter().any(|way| members(way).next().is_none()));
    let ways: Vec<&str> = WAYS_IN
        .iter()
        .filter(|(name, _)| schemes.contains(name))
        .map(|(_, words)| *words)
        .collect();
    html! {
        @if open { "For everybody." } @else { "Needs " (ways.join(", or ")) "." }
    }
}

/// Text with `code` in it.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn slug(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    text.trim_matches('/')
        .chars()
        .filter(|c| !matches!(c, '{' | '}'))
        .map(plain)
        .collect()
}

#[cfg(test)]
#[path = "docs/tests.rs"]
mod tests;
