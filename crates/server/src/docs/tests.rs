//! The page says everything that the document says, and nothing in it runs or comes from elsewhere.

use serde_json::json;

use super::*;
use crate::openapi::document;

#[test]
fn every_operation_and_every_shape_is_there() {
    let page = docs_html(&document());
    let document = serde_json::to_value(document()).unwrap();
    let mut operations = 0;
    for (path, item) in members(&document["paths"]) {
        for (method, about) in members(item) {
            operations += 1;
            let anchor = format!("<div id=\"{method}-{}\">", slug(path));
            assert_eq!(page.matches(&anchor).count(), 1, "{method} {path}");
            assert!(
                !text(&about["summary"]).is_empty(),
                "{method} {path} does not say what it does"
            );
        }
    }
    assert!(operations > 60, "{operations}");
    for (name, _) in members(&document["components"]["schemas"]) {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    // Every link within the page leads somewhere.
    for link in page
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
}

#[test]
fn nothing_runs_and_nothing_comes_from_elsewhere() {
    let page = docs_html(&document());
    for part in [
        "<script",
        "<style",
        " style=",
        "http://",
        "https://",
        "javascript:",
        " on",
    ] {
        let found = page.find(part).map(|at| {
            page[at.saturating_sub(40)..]
                .chars()
                .take(100)
                .collect::<String>()
        });
        let harmless = |found: &String| {
            part == " on" && !found.contains(" onclick") && !found.contains(" onload")
        };
        assert!(found.as_ref().is_none_or(harmless), "{part}: {found:?}");
    }
}

#[test]
fn what_the_document_says_cannot_become_markup() {
    let mut document = document();
    document.info.description = Some("<img src=x onerror=alert(1)> `<b>`".to_owned());
    let page = docs_html(&document);
    assert!(
        page.contains("&lt;img src=x")
            && page.contains("<code>&lt;b&gt;</code>")
            && !page.contains("<img")
    );
}

#[test]
fn shapes_are_said_in_one_line() {
    let cases = [
        (json!({"type": "string"}), "string"),
        (
            json!({"type": ["integer", "null"], "minimum": 1}),
            "integer or null<small> from 1</small>",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "list of string",
        ),
        (
            json!({"enum": ["a", "b"]}),
            "<code>a</code> or <code>b</code>",
        ),
        (
            json!({"$ref": "#/components/schemas/Plan"}),
            "<a href=\"#schema-Plan\">Plan</a>",
        ),
        (
            json!({"oneOf": [{"type": "null"}, {"type": "number"}]}),
            "null or number",
        ),
        (json!({}), "anything"),
    ];
    for (schema, expected) in cases {
        assert_eq!(type_of(&schema).into_string(), expected);
    }
}
