//! The shapes of bodies: what a field holds, in one line, and what a named shape is made of.

use maud::{Markup, html};
use serde_json::Value;

use super::{members, prose, text};

/// A shape that refers to itself must end somewhere.
const MAX_DEPTH: usize = 6;

/// The name of the shape that is referred to.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// A named shape.
pub(super) fn details(name: &str, schema: &Value) -> Markup {
    html! {
        details {
            summary { code { (name) } " " span class="about" { (prose(text(&schema["description"]))) } }
            div id={ "schema-" (name) } { (shape(schema, 0)) }
        }
    }
}

/// What a value is, in one line.
pub(super) fn type_of(schema: &Value) -> Markup {
    one_line(schema, 0)
}

fn one_line(schema: &Value, depth: usize) -> Markup {
    if depth > MAX_DEPTH {
        return html! { "…" };
    }
    if let Some(name) = reference(schema) {
        return html! { a href={ "#schema-" (name) } { (name) } };
    }
    for (key, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(parts) = schema[key].as_array() {
            return joined(parts.iter().map(|part| one_line(part, depth + 1)), between);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return joined(
            values.iter().map(|value| html! { code { (shown(value)) } }),
            " or ",
        );
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    html! {
        (joined(kinds.iter().map(|kind| match *kind {
            "array" => html! { "list of " (one_line(&schema["items"], depth + 1)) },
            kind => html! { (kind) },
        }), " or "))
        @for limit in limits(schema) { small { " " (limit) } }
    }
}

fn shape(schema: &Value, depth: usize) -> Markup {
    if depth > MAX_DEPTH {
        return html! { "…" };
    }
    for (key, says) in [
        ("oneOf", "One of:"),
        ("anyOf", "Any of:"),
        ("allOf", "All of:"),
    ] {
        if let Some(parts) = schema[key].as_array() {
            return html! {
                p { (says) }
                ul { @for part in parts { li { (shape(part, depth + 1)) } } }
            };
        }
    }
    if !schema["properties"].is_object() {
        return html! { p { (one_line(schema, depth)) } };
    }
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    html! {
        table {
            @for (name, field) in members(&schema["properties"]) {
                tr {
                    th { code { (name) } @if !required.contains(&name) { small { " optional" } } }
                    td {
                        @if field["properties"].is_object() { (shape(field, depth + 1)) } @else { (one_line(field, depth)) }
                    }
                    td { (prose(text(&field["description"]))) }
                }
            }
        }
    }
}

fn limits(schema: &Value) -> impl Iterator<Item = String> {
    let words = [
        ("format", "format"),
        ("minimum", "from"),
        ("maximum", "to"),
        ("minLength", "characters from"),
        ("maxLength", "characters to"),
        ("minItems", "items from"),
        ("maxItems", "items to"),
        ("default", "unless set"),
    ];
    words.into_iter().filter_map(|(key, word)| {
        schema
            .get(key)
            .map(|value| format!("{word} {}", shown(value)))
    })
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn joined(parts: impl Iterator<Item = Markup>, between: &str) -> Markup {
    html! {
        @for (index, part) in parts.enumerate() {
            @if index > 0 { (between) }
            (part)
        }
    }
}
