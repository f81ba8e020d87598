//! What the API document says of every route of a group: its tag, who may call it, the parameters
//! of its path and the errors that all such routes answer with. A handler's own attribute says only
//! what differs, and what it says wins.

use std::collections::BTreeMap;

use codelab_protocol::ErrorBody;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, PathItem, Ref, RefOr, Required, Response, Schema};
use utoipa::{IntoResponses, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

/// Who may call the routes of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Everybody,
    /// Everybody, but a request can be refused as on a route that needs a key.
    Login,
    InternalKey,
    InternalKeyOrBearer,
    User,
    /// A user, but not with the cookie of the page.
    Token,
    InternalKeyOrUser,
}

/// A parameter of a path.
struct PathParameter {
    name: &'static str,
    schema: fn() -> RefOr<Schema>,
    description: &'static str,
    /// What the 404 answer calls it.
    noun: &'static str,
}

const PATH_PARAMETERS: [PathParameter; 12] = [
    path_parameter("session_id", "The session", "session"),
    PathParameter {
        schema: i64::schema,
        ..path_parameter("project_id", "The project's number", "project")
    },
    path_parameter("agent_id", "The agent's id", "agent"),
    path_parameter(
        "context_id",
        "The id from the answer to an addition or a search",
        "memory",
    ),
    path_parameter("client_id", "The client", "client"),
    path_parameter("plan_id", "The plan", "plan"),
    path_parameter("task_id", "The task", "task"),
    path_parameter("call_id", "The tool call", "tool call"),
    path_parameter("name", "The name of the MCP server", "MCP server"),
    path_parameter(
        "digest",
        "The file's digest, from its message",
        "attachment",
    ),
    path_parameter("message_id", "The message", "message"),
    path_parameter("remembered_id", "The id from the list", "remembered rule"),
];

const fn path_parameter(
    name: &'static str,
    description: &'static str,
    noun: &'static str,
) -> PathParameter {
    PathParameter {
        name,
        schema: String::schema,
        description,
        noun,
    }
}

/// Answers that every route with access can give.
#[derive(IntoResponses)]
#[allow(dead_code)]
enum Refused {
    /// Missing or wrong key.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// Foreign host name or origin.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Too many requests at once; see `Retry-After`.
    #[response(status = 429)]
    TooMany(ErrorBody),
    /// The server is stopping, or a part that it needs is unavailable; see `Retry-After`.
    #[response(status = 503)]
    Unavailable(ErrorBody),
    /// The disk is full; nothing was changed.
    #[response(status = 507)]
    DiskFull(ErrorBody),
}

/// Answers of routes with a body or a query.
#[derive(IntoResponses)]
#[allow(dead_code)]
enum Invalid {
    /// Larger than the limit.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// Malformed, or a field is missing or wrong.
    #[response(status = 422)]
    Unprocessable(ErrorBody),
}

impl Access {
    /// One router of several resources, each with its tag.
    pub fn to<const N: usize>(
        self,
        resources: [(&str, OpenApiRouter<App>); N],
    ) -> OpenApiRouter<App> {
        let all = resources.into_iter().map(|(tag, mut routes)| {
            for (path, item) in &mut routes.get_openapi_mut().paths.paths {
                for operation in operations(item)
                    .into_iter()
                    .filter_map(|(_, it)| it.as_mut())
                {
                    self.complete(path, tag, operation);
                }
            }
            routes
        });
        all.fold(OpenApiRouter::new(), OpenApiRouter::merge)
    }

    fn complete(self, path: &str, tag: &str, operation: &mut Operation) {
        operation.tags = Some(vec![tag.to_owned()]);
        let security = operation.security.get_or_insert_default();
        if security.is_empty() {
            *security = self.requirements();
        }
        let named = named_in(path);
        let given = operation.parameters.take().unwrap_or_default();
        let parameters = with_path(&named, given);
        let takes_input = operation.request_body.is_some()
            || parameters.iter().any(|parameter| !is_in_path(parameter));
        operation.parameters = Some(parameters).filter(|all| !all.is_empty());

        let responses = &mut operation.responses.responses;
        let mut shared = BTreeMap::new();
        if !named.is_empty() {
            shared.insert("404".to_owned(), Response::new(unknown(&named)).into());
        }
        if self != Self::Everybody {
            shared.append(&mut Refused::responses());
        }
        if takes_input {
            shared.append(&mut Invalid::responses());
        }
        for (status, response) in shared {
            responses.entry(status).or_insert(response);
        }
        for (status, response) in responses {
            if let RefOr::T(response) = response
                && status.as_str() >= "400"
                && response.content.is_empty()
            {
                let body = ContentBuilder::new()
                    .schema(Some(Ref::from_schema_name(ErrorBody::name())))
                    .build();
                response
                    .content
                    .insert("application/json".to_owned(), body.into());
            }
        }
    }

    fn requirements(self) -> Vec<SecurityRequirement> {
        let names: &[&str] = match self {
            Self::Everybody | Self::Login => return vec![SecurityRequirement::default()],
            Self::InternalKey => &["internal_key"],
            Self::InternalKeyOrBearer => &["internal_key", "internal_bearer"],
            Self::User => &["user_token", "login_cookie"],
            Self::Token => &["user_token"],
            Self::InternalKeyOrUser => &["internal_key", "user_token", "login_cookie"],
        };
        names
            .iter()
            .map(|name| SecurityRequirement::new::<_, [&str; 0], _>(*name, []))
            .collect()
    }
}

/// The operations of a path by method.
pub(crate) fn operations(item: &mut PathItem) -> [(&'static str, &mut Option<Operation>); 5] {
    [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ]
}

/// The parameters that a path names, in its order.
fn named_in(path: &str) -> Vec<&'static PathParameter> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .filter_map(|name| PATH_PARAMETERS.iter().find(|known| known.name == name))
        .collect()
}

/// The parameters of the path that the handler does not describe itself, then those it does.
fn with_path(named: &[&PathParameter], given: Vec<RefOr<Parameter>>) -> Vec<RefOr<Parameter>> {
    let is_given = |name: &str| {
        given
            .iter()
            .any(|one| is_in_path(one) && matches!(one, RefOr::T(one) if one.name == name))
    };
    let added = named
        .iter()
        .filter(|known| !is_given(known.name))
        .map(|known| {
            ParameterBuilder::new()
                .name(known.name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .description(Some(known.description))
                .schema(Some((known.schema)()))
                .build()
                .into()
        });
    let added: Vec<RefOr<Parameter>> = added.collect();
    added.into_iter().chain(given).collect()
}

fn is_in_path(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Path)
}

/// `Unknown session, plan or task`.
fn unknown(named: &[&PathParameter]) -> String {
    let nouns: Vec<&str> = named.iter().map(|known| known.noun).collect();
    match nouns.split_last() {
        Some((last, [])) => format!("Unknown {last}"),
        Some((last, before)) => format!("Unknown {} or {last}", before.join(", ")),
        None => String::new(),
    }
}
