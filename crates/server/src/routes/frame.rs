//! How a server-sent event is documented: the frame, and the JSON inside it. Nothing is built from
//! this.

use std::borrow::Cow;

use codelab_protocol::{Chunk, Done, GlobalDelta, GlobalMessage, SessionEvent};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// One frame of a runtime session's stream.
pub(super) struct Frame;

/// One frame of a project session's stream.
pub(super) struct SessionFrame;

/// One frame of the stream of all of a user's sessions.
pub(super) struct UserFrame;

/// One frame of the global Chat's stream.
pub(super) struct GlobalFrame;

impl PartialSchema for Frame {
    fn schema() -> RefOr<Schema> {
        frame::<Chunk>(text().enum_values(Some(["message", "error", "done"])))
    }
}

impl PartialSchema for SessionFrame {
    fn schema() -> RefOr<Schema> {
        frame::<SessionEvent>(text().description(Some("The type of the event, or `done`.")))
    }
}

impl PartialSchema for UserFrame {
    fn schema() -> RefOr<Schema> {
        let data = text()
            .content_media_type("application/json")
            .content_schema(Some(Schema::OneOf(
                OneOfBuilder::new()
                    .item(Ref::from_schema_name(SessionEvent::name()))
                    .build(),
            )))
            .description(Some("An event. The first frame has none."));
        let id = text().pattern(Some("^[A-Za-z0-9_-]+$")).description(Some(
            "What to come back with. It has no meaning for readers.",
        ));
        ObjectBuilder::new()
            .description(Some("One frame of the stream of all sessions."))
            .property("id", id)
            .required("id")
            .property("event", text().description(Some("The type of the event.")))
            .property("data", data)
            .into()
    }
}

impl PartialSchema for GlobalFrame {
    fn schema() -> RefOr<Schema> {
        let data = text()
            .content_media_type("application/json")
            .content_schema(Some(Schema::OneOf(
                OneOfBuilder::new()
                    .item(Ref::from_schema_name(GlobalMessage::name()))
                    .item(Ref::from_schema_name(GlobalDelta::name()))
                    .build(),
            )))
            .description(Some(
                "A message, or a piece of the answer that is being written.",
            ));
        let id = text()
            .pattern(Some("^[0-9]+$"))
            .description(Some("The id of the message. A piece has none."));
        ObjectBuilder::new()
            .description(Some("One frame of the Chat's stream."))
            .property("id", id)
            .property("event", text().enum_values(Some(["message", "delta"])))
            .required("event")
            .property("data", data)
            .required("data")
            .into()
    }
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn frame<T: ToSchema>(name: ObjectBuilder) -> RefOr<Schema> {
    let payload = OneOfBuilder::new()
        .item(Ref::from_schema_name(T::name()))
        .item(Ref::from_schema_name(Done::name()))
        .build();
    let data = text()
        .content_media_type("application/json")
        .content_schema(Some(Schema::OneOf(payload)))
        .description(Some(
            "An event, or how the turn stands in the frame that closes the stream.",
        ));
    let id = text().pattern(Some("^[0-9]+$")).description(Some(
        "The number of the event; absent where nothing is stored.",
    ));
    ObjectBuilder::new()
        .description(Some("One frame of an event stream."))
        .property("id", id)
        .property("event", name)
        .required("event")
        .property("data", data)
        .required("data")
        .into()
}

impl ToSchema for SessionFrame {
    fn name() -> Cow<'static, str> {
        "SessionEventFrame".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<SessionEvent>(schemas);
        add::<Done>(schemas);
    }
}

impl ToSchema for UserFrame {
    fn name() -> Cow<'static, str> {
        "UserEventFrame".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<SessionEvent>(schemas);
    }
}

impl ToSchema for Frame {
    fn name() -> Cow<'static, str> {
        "EventFrame".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<Chunk>(schemas);
        add::<Done>(schemas);
    }
}

impl ToSchema for GlobalFrame {
    fn name() -> Cow<'static, str> {
        "GlobalChatFrame".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<GlobalMessage>(schemas);
        add::<GlobalDelta>(schemas);
    }
}

/// A schema with everything that it refers to.
pub(crate) fn add<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
