//! Asks an HTTP proxy for a tunnel to a server (`CONNECT`).

use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The head of a proxy's answer.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Why there is no tunnel.
#[derive(Debug, PartialEq, Eq)]
pub enum NoTunnel {
    Refused(u16),
    Broken(String),
}

/// `address` is `host:port`. After this the connection carries the bytes of that server.
pub async fn open<T: AsyncRead + AsyncWrite + Unpin>(
    io: &mut T,
    address: &str,
    authorization: Option<&HeaderValue>,
) -> Result<(), NoTunnel> {
    let broken = |error: std::io::Error| NoTunnel::Broken(error.to_string());
    let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n").into_bytes();
    if let Some(value) = authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    io.write_all(&request).await.map_err(broken)?;
    io.flush().await.map_err(broken)?;

    let mut head = Vec::with_capacity(512);
    loop {
        if head.len() >= MAX_HEAD_BYTES {
            return Err(NoTunnel::Broken("its answer is too long".to_owned()));
        }
        // One byte at a time: what follows the head belongs to the server behind the proxy.
        let byte = io.read_u8().await.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                NoTunnel::Broken("it closed the connection without an answer".to_owned())
            }
            _ => broken(error),
        })?;
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") || head.ends_with(b"\n\n") {
            break;
        }
    }
    match status(&head) {
        Some(200..=299) => Ok(()),
        Some(status) => Err(NoTunnel::Refused(status)),
        None => Err(NoTunnel::Broken("it does not speak HTTP".to_owned())),
    }
}

/// The status of `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let (version, rest) = line.split_once(' ')?;
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    rest.trim_start()
        .get(..3)?
        .parse()
        .ok()
        .filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(answer: &[u8]) -> Result<(), NoTunnel> {
        let (mut ours, mut theirs) = tokio::io::duplex(64 * 1024);
        theirs.write_all(answer).await.unwrap();
        theirs.shutdown().await.unwrap();
        open(&mut ours, "a.test:443", None).await
    }

    #[tokio::test]
    async fn only_a_successful_answer_opens_a_tunnel() {
        let established = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n\x16\x03";
        assert_eq!(answered(established).await, Ok(()));
        for (answer, status) in [
            (
                &b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..],
                407,
            ),
            (b"HTTP/1.0 503 no\n\n", 503),
        ] {
            assert_eq!(answered(answer).await, Err(NoTunnel::Refused(status)));
        }
        let endless = [b"HTTP/1.1 200 ".as_slice(), &vec![b'x'; MAX_HEAD_BYTES]].concat();
        for answer in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-2.0-x\r\n\r\n",
            &endless,
        ] {
            let found = answered(answer).await;
            assert!(matches!(found, Err(NoTunnel::Broken(_))), "{found:?}");
        }
    }
}
