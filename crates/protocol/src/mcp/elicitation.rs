//! Questions of MCP servers to people: what a person's answer means for the fields that were asked
//! for.

use serde_json::{Map, Value};

/// A person who writes this gives the server no answer.
pub const DECLINE: &str = "/decline";

pub fn is_declined(answer: &str) -> bool {
    answer.trim().eq_ignore_ascii_case(DECLINE)
}

/// What a person's answer gives the server. `None`: the person declined. An answer that does not
/// fit is an error that says what to write.
pub fn elicited_content(
    requested_schema: &Map<String, Value>,
    answer: &str,
) -> Result<Option<Map<String, Value>>, String> {
    let answer = answer.trim();
    if is_declined(answer) {
        return Ok(None);
    }
    let empty = Map::new();
    let fields = match requested_schema.get("properties") {
        Some(Value::Object(fields)) => fields,
        Some(_) | None => &empty,
    };
    let mut named = fields.iter();
    match (named.next(), named.next()) {
        // Only an agreement is asked for.
        (None, _) => match agreement(answer) {
            Some(true) => Ok(Some(Map::new())),
            Some(false) => Ok(None),
            None => Err("Answer with yes or no".to_owned()),
        },
        (Some((name, field)), None) => {
            // Who writes the object of a single field means the field.
            let given = object(answer).and_then(|mut given| given.remove(name));
            let value = match given {
                Some(value) => checked(name, field, value)?,
                None => plain(name, field, answer)?,
            };
            Ok(Some(Map::from_iter([(name.clone(), value)])))
        }
        (Some(_), Some(_)) => several(requested_schema, fields, answer).map(Some),
    }
}

/// A yes or a no, in the languages of the page.
fn agreement(answer: &str) -> Option<bool> {
    match answer.to_lowercase().as_str() {
        "true" | "yes" | "y" | "ok" | "да" | "так" => Some(true),
        "false" | "no" | "n" | "нет" | "ні" => Some(false),
        _ => None,
    }
}

fn several(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    answer: &str,
) -> Result<Map<String, Value>, String> {
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    let given = object(answer).ok_or_else(|| {
        format!(
            "Answer with a JSON object that has the fields {}, or {DECLINE}",
            names.join(", ")
        )
    })?;
    if let Some(name) = given.keys().find(|name| !fields.contains_key(*name)) {
        return Err(format!(
            "The field {name} was not asked for; the fields are {}",
            names.join(", ")
        ));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|name| !given.contains_key(*name));
    if let Some(name) = missing {
        return Err(format!("The field {name} is missing"));
    }
    let field = |(name, value): (String, Value)| {
        let value = checked(&name, fields.get(&name).unwrap_or(&Value::Null), value)?;
        Ok((name, value))
    };
    given.into_iter().map(field).collect()
}

fn object(answer: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(answer) {
        Ok(Value::Object(fields)) => Some(fields),
        Ok(_) | Err(_) => None,
    }
}

/// A field as a person writes it, without quotes.
fn plain(name: &str, field: &Value, answer: &str) -> Result<Value, String> {
    let value = match kind(field) {
        Some("boolean") => match agreement(answer) {
            Some(agreed) => Value::Bool(agreed),
            None => return Err(format!("Answer {name} with yes or no")),
        },
        Some("number" | "integer" | "array") => {
            serde_json::from_str(answer).unwrap_or_else(|_| answer.into())
        }
        _ => answer.into(),
    };
    checked(name, field, value)
}

fn checked(name: &str, field: &Value, value: Value) -> Result<Value, String> {
    let fits = match kind(field) {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("array") => value.is_array(),
        _ => true,
    };
    if !fits {
        let kind = kind(field).unwrap_or_default();
        return Err(format!("The field {name} must be of the type {kind}"));
    }
    match choices(field) {
        Some(choices) if !choices.contains(&value) => {
            let choices: Vec<String> = choices.iter().map(shown).collect();
            Err(format!("{name} must be one of {}", choices.join(", ")))
        }
        Some(_) | None => Ok(value),
    }
}

fn kind(field: &Value) -> Option<&str> {
    field.get("type").and_then(Value::as_str)
}

/// The values that a field may have, in either spelling of JSON Schema.
fn choices(field: &Value) -> Option<Vec<Value>> {
    if let Some(Value::Array(choices)) = field.get("enum") {
        return Some(choices.clone());
    }
    let titled = field.get("oneOf").and_then(Value::as_array)?;
    titled
        .iter()
        .map(|choice| choice.get("const").cloned())
        .collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(schema: Value, answer: &str) -> Result<Value, String> {
        let Value::Object(schema) = schema else {
            panic!("a schema is an object");
        };
        elicited_content(&schema, answer).map(|content| json!(content))
    }

    #[test]
    fn one_field_is_answered_plainly() {
        let one = |field: Value| json!({"type": "object", "properties": {"a": field}});
        let cases = [
            (
                json!({"type": "string"}),
                "yes, do it",
                Ok(json!({"a": "yes, do it"})),
            ),
            (
                json!({"type": "string"}),
                r#"{"a": "b"}"#,
                Ok(json!({"a": "b"})),
            ),
            (json!({"type": "boolean"}), "Да", Ok(json!({"a": true}))),
            (json!({"type": "boolean"}), "maybe", Err("yes or no")),
            (json!({"type": "integer"}), "7", Ok(json!({"a": 7}))),
            (json!({"type": "integer"}), "7.5", Err("type integer")),
            (
                json!({"type": "string", "enum": ["x", "y"]}),
                "y",
                Ok(json!({"a": "y"})),
            ),
            (
                json!({"type": "string", "enum": ["x", "y"]}),
                "z",
                Err("one of x, y"),
            ),
            (
                json!({"type": "string", "oneOf": [{"const": "x", "title": "X"}]}),
                "z",
                Err("one of x"),
            ),
            (json!({"type": "string"}), " /Decline ", Ok(Value::Null)),
        ];
        for (field, answer, expected) in cases {
            match (content(one(field), answer), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, _) => panic!("{answer}: {found:?}"),
            }
        }
    }

    #[test]
    fn several_fields_are_a_json_object() {
        let schema = json!({"properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a"]});
        let cases = [
            (r#"{"a": "x", "b": 1.5}"#, Ok(json!({"a": "x", "b": 1.5}))),
            (r#"{"a": "x"}"#, Ok(json!({"a": "x"}))),
            (r#"{"b": 1}"#, Err("a is missing")),
            (r#"{"a": 1}"#, Err("type string")),
            (r#"{"a": "x", "c": 1}"#, Err("not asked for")),
            ("x", Err("JSON object")),
        ];
        for (answer, expected) in cases {
            match (content(schema.clone(), answer), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, _) => panic!("{answer}: {found:?}"),
            }
        }
    }

    #[test]
    fn an_agreement_has_no_fields() {
        assert_eq!(content(json!({}), "ok").unwrap(), json!({}));
        assert_eq!(content(json!({}), "Нет").unwrap(), Value::Null);
        let unclear = content(json!({}), "stop, don't").unwrap_err();
        assert!(unclear.contains("yes or no"), "{unclear}");
    }
}
