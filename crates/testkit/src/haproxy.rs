//! HAProxy as a reverse proxy with TLS, as people put one in front of a server.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use codelab_fakemodel::TestCertificate;

use crate::eventually;

/// Debian keeps it out of a user's `PATH`.
const PROGRAMS: [&str; 2] = ["haproxy", "/usr/sbin/haproxy"];

pub struct HttpsProxy {
    pub port: u16,
    process: Child,
}

impl HttpsProxy {
    /// `None`, and a line that says so, where HAProxy is missing. `folder` is for its files.
    #[allow(clippy::print_stdout)]
    pub async fn start(
        folder: &Path,
        certificate: &TestCertificate,
        server_port: u16,
    ) -> Option<Self> {
        let works = |program: &&&str| {
            let version = Command::new(program)
                .arg("-v")
                .stdout(Stdio::null())
                .status();
            version.is_ok_and(|status| status.success())
        };
        let Some(program) = PROGRAMS.iter().find(works) else {
            println!("skipped: the program haproxy is missing");
            return None;
        };
        let both = folder.join("haproxy.pem");
        let pem = [&certificate.certificate, &certificate.key].map(|path| fs::read(path).unwrap());
        fs::write(&both, pem.concat()).unwrap();
        // It cannot tell which port it took, so a free one is chosen for it.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = folder.join("haproxy.cfg");
        fs::write(
            &config,
            format!(
                "defaults\n mode http\n timeout connect 10s\n timeout client 120s\n \
                 timeout server 120s\nlisten codelab\n bind 127.0.0.1:{port} ssl crt {}\n \
                 server one 127.0.0.1:{server_port}\n",
                both.display()
            ),
        )
        .unwrap();
        let process = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&config)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        eventually("HAProxy listens", async || {
            TcpStream::connect(("127.0.0.1", port))
        })
        .await;
        Some(Self { port, process })
    }
}

impl Drop for HttpsProxy {
    fn drop(&mut self) {
        let _ended = self.process.kill().and_then(|()| self.process.wait());
    }
}
