//! JSON Web Tokens with one configured algorithm. The algorithm in a token's own header is ignored.

use codelab_llm::Secret;
use codelab_protocol::{Timestamp, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde_json::{Map, Value, json};

use super::{Identity, UserRole};
use crate::config::{ConfigError, JwtAlgorithm, Settings, wrong};

const AUDIENCE: &str = "codelab";
/// Longer tokens are refused without parsing.
const MAX_TOKEN_BYTES: usize = 8192;
/// Longer texts in optional claims are ignored.
const MAX_CLAIM_BYTES: usize = 128;

/// Knows the one key and algorithm that tokens must have.
pub(crate) struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

#[derive(Debug, thiserror::Error)]
#[error("the token could not be signed: {0}")]
pub struct SignError(#[from] jsonwebtoken::errors::Error);

impl Verifier {
    pub fn new(settings: &Settings, secret: &Secret) -> Result<Self, ConfigError> {
        let (algorithm, key) = match settings.jwt.algorithm {
            JwtAlgorithm::Hs256 => (
                Algorithm::HS256,
                DecodingKey::from_secret(secret.expose().as_bytes()),
            ),
            JwtAlgorithm::Rs256 => (
                Algorithm::RS256,
                public_key(settings, DecodingKey::from_rsa_pem)?,
            ),
            JwtAlgorithm::Es256 => (
                Algorithm::ES256,
                public_key(settings, DecodingKey::from_ec_pem)?,
            ),
        };
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud"]);
        validation.validate_nbf = true;
        validation.leeway = 0;
        Ok(Self { key, validation })
    }

    /// `None` for any invalid token. The caller is not told why, so that it learns nothing.
    pub fn verify(&self, token: &str, now: Timestamp) -> Option<Identity> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let data =
            jsonwebtoken::decode::<Map<String, Value>>(token, &self.key, &self.validation).ok()?;
        // A token with critical extensions (`crit`) is refused, because none is supported.
        if data.header.crit.is_some() {
            return None;
        }
        let claims = data.claims;
        // The library is lenient about the type of a time and reads its own clock.
        let expires_ms = claims.get("exp")?.as_f64()? * 1000.0;
        if expires_ms <= now.as_millis() as f64
            || claims.get("nbf").is_some_and(|nbf| !nbf.is_number())
        {
            return None;
        }
        let user_id = match claims.get("sub")? {
            Value::Number(number) => UserId::new(number.as_i64()?)?,
            Value::String(digits) => UserId::parse(digits)?,
            _ => return None,
        };
        let role = match claims.get("role").and_then(Value::as_str) {
            Some("admin") => UserRole::Admin,
            _ => UserRole::User,
        };
        let text = |name: &str| claim_text(claims.get(name)?);
        Some(Identity {
            user_id,
            role,
            timezone: text("tz"),
            household_id: text("household_id"),
            locale: text("locale"),
        })
    }
}

fn claim_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty() && text.len() <= MAX_CLAIM_BYTES).then_some(text)
}

fn public_key(
    settings: &Settings,
    read: fn(&[u8]) -> jsonwebtoken::errors::Result<DecodingKey>,
) -> Result<DecodingKey, ConfigError> {
    const SETTING: &str = "auth.jwt_public_key_file";
    let path = settings.jwt.public_key_file.as_ref();
    let path = path.ok_or_else(|| wrong(SETTING, "must name the PEM file of the public key"))?;
    let pem = std::fs::read(path)
        .map_err(|error| wrong(SETTING, &format!("{}: {error}", path.display())))?;
    let algorithm = settings.jwt.algorithm.as_str();
    read(&pem).map_err(|_| {
        wrong(
            SETTING,
            &format!(
                "{}: is no public key for {algorithm} in PEM",
                path.display()
            ),
        )
    })
}

/// A token as this server accepts it, where it signs with a shared secret.
pub fn sign_token(
    identity: &Identity,
    secret: &Secret,
    now: Timestamp,
    seconds: u64,
) -> Result<String, SignError> {
    let now_seconds = now.as_millis() / 1000;
    let expires = now.plus_seconds(seconds).as_millis() / 1000;
    let mut claims = json!({ "sub": identity.user_id.to_string(), "aud": AUDIENCE, "iat": now_seconds, "exp": expires });
    if identity.role == UserRole::Admin {
        claims["role"] = json!("admin");
    }
    let optional = [
        ("tz", &identity.timezone),
        ("household_id", &identity.household_id),
        ("locale", &identity.locale),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            claims[name] = json!(value);
        }
    }
    let key = EncodingKey::from_secret(secret.expose().as_bytes());
    Ok(jsonwebtoken::encode(
        &Header::new(Algorithm::HS256),
        &claims,
        &key,
    )?)
}
