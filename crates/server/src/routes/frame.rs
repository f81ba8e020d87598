//! How a server-sent event is documented: the frame, and the JSON inside it. Nothing is built from this.

use codelab_protocol::{Chunk, Done};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// One frame of an event stream.
pub(super) struct Frame;

impl PartialSchema for Frame {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let payload = OneOfBuilder::new()
            .item(Ref::from_schema_name(Chunk::name()))
            .item(Ref::from_schema_name(Done::name()))
            .build();
        let data = text()
            .content_media_type("application/json")
            .content_schema(Some(Schema::OneOf(payload)))
            .description(Some("A chunk, or how the turn stands in the frame that closes the stream."));
        let id = text()
            .pattern(Some("^[0-9]+$"))
            .description(Some("The number of the event; absent where nothing is stored."));
        ObjectBuilder::new()
            .description(Some("One frame of an event stream."))
            .property("id", id)
            .property("event", text().enum_values(Some(["message", "error", "done"])))
            .required("event")
            .property("data", data)
            .required("data")
            .into()
    }
}

impl ToSchema for Frame {
    fn name() -> std::borrow::Cow<'static, str> {
        "EventFrame".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Chunk::name().into_owned(), Chunk::schema()));
        Chunk::schemas(schemas);
        schemas.push((Done::name().into_owned(), Done::schema()));
        Done::schemas(schemas);
    }
}
