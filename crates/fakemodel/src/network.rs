//! What stands between a client and a server in real networks: certificates of a private authority,
//! a TLS front, and an HTTP proxy. All on loopback.
//!
//! Panics where a test would.
#![allow(clippy::unwrap_used, reason = "for tests, which fail by panicking")]

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// The head of a request to a proxy.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A certificate authority of a test's own, with files in one folder.
pub struct TestAuthority {
    folder: PathBuf,
}

/// A server's certificate and key, as PEM files.
pub struct TestCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TestAuthority {
    /// `None`, and a line that says so, where the program `openssl` is missing.
    #[allow(clippy::print_stdout)]
    pub fn make(folder: &Path) -> Option<Self> {
        let found = Command::new("openssl")
            .arg("version")
            .stdout(Stdio::null())
            .status();
        if found.is_err() {
            println!("skipped: the program openssl is missing");
            return None;
        }
        let authority = Self {
            folder: folder.to_owned(),
        };
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=test authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ]);
        Some(authority)
    }

    /// For `--ca-file` and its like.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// `names` are subject alternative names, such as `DNS:localhost,IP:127.0.0.1`.
    pub fn issue(&self, file: &str, names: &str) -> TestCertificate {
        let (key, request, certificate, extensions) = (
            format!("{file}.key"),
            format!("{file}.csr"),
            format!("{file}.pem"),
            format!("{file}.ext"),
        );
        std::fs::write(
            self.folder.join(&extensions),
            format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n"),
        )
        .unwrap();
        self.openssl(&[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=test server",
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ]);
        TestCertificate {
            certificate: self.folder.join(certificate),
            key: self.folder.join(key),
        }
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(&self.folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments:?}: {said}");
    }
}

/// Ends TLS and passes the bytes on to a plain server.
pub struct TlsFront {
    pub addr: SocketAddr,
    task: AbortHandle,
}

impl TlsFront {
    pub async fn start(certificate: &TestCertificate, server: SocketAddr) -> Self {
        let chain = CertificateDer::pem_file_iter(&certificate.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (addr, task) = listen(move |client| {
            let acceptor = acceptor.clone();
            async move {
                let mut client = acceptor.accept(client).await?;
                join(&mut client, server).await
            }
        })
        .await;
        Self { addr, task }
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An HTTP proxy that wants credentials. It connects everything to one server, whatever name it is
/// asked for, so that tests need no name service.
pub struct ForwardProxy {
    pub addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl ForwardProxy {
    /// `authorization` is the whole value of `Proxy-Authorization`.
    pub async fn start(authorization: Option<&str>, server: SocketAddr) -> Self {
        let wanted = authorization.map(|value| format!("proxy-authorization: {value}"));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let (addr, task) = listen(move |mut client| {
            let (wanted, seen) = (wanted.clone(), Arc::clone(&seen));
            async move {
                let head = read_head(&mut client).await?;
                let allowed = wanted.is_none_or(|wanted| {
                    head.lines().any(|line| line.eq_ignore_ascii_case(&wanted))
                });
                let is_tunnel = head.starts_with("CONNECT ");
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(head.clone());
                if !allowed {
                    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\n\
                                   Content-Length: 0\r\nConnection: close\r\n\r\n";
                    return client.write_all(refusal.as_bytes()).await;
                }
                if is_tunnel {
                    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                    return join(&mut client, server).await;
                }
                let mut server = TcpStream::connect(server).await?;
                server.write_all(head.as_bytes()).await?;
                copy_bidirectional(&mut client, &mut server)
                    .await
                    .map(|_| ())
            }
        })
        .await;
        Self { addr, heads, task }
    }

    /// The heads of the requests that came, as they came.
    pub fn heads(&self) -> Vec<String> {
        self.heads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen<W>(serve: impl Fn(TcpStream) -> W + Send + 'static) -> (SocketAddr, AbortHandle)
where
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // A client that breaks off is part of a test.
            tokio::spawn(serve(client));
        }
    });
    (addr, task.abort_handle())
}

async fn join(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: SocketAddr,
) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    copy_bidirectional(client, &mut server).await.map(|_| ())
}

async fn read_head(client: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(client.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
