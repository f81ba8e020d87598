//! HAProxy, as people put it in front of a server: with TLS, or as the load balancer of several.

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
    _process: HaproxyProcess,
}

impl HttpsProxy {
    /// `None`, and a line that says so, where HAProxy is missing. `folder` is for its files.
    pub async fn start(
        folder: &Path,
        certificate: &TestCertificate,
        server_port: u16,
    ) -> Option<Self> {
        let both = folder.join("haproxy.pem");
        let pem = [&certificate.certificate, &certificate.key].map(|path| fs::read(path).unwrap());
        fs::write(&both, pem.concat()).unwrap();
        let port = free_port();
        let config = format!(
            "defaults\n mode http\n timeout connect 10s\n timeout client 120s\n \
             timeout server 120s\nlisten codelab\n bind 127.0.0.1:{port} ssl crt {}\n \
             server one 127.0.0.1:{server_port}\n",
            both.display()
        );
        let process = HaproxyProcess::start(folder, port, &config).await?;
        Some(Self {
            port,
            _process: process,
        })
    }
}

/// One address for several servers, each used in turn while it says that it is ready.
pub struct LoadBalancer {
    pub port: u16,
    _process: HaproxyProcess,
}

impl LoadBalancer {
    /// `None`, and a line that says so, where HAProxy is missing. `folder` is for its files. Only a
    /// connection that could not be made is tried again, at another server.
    pub async fn start(folder: &Path, server_ports: &[u16]) -> Option<Self> {
        let port = free_port();
        let mut config = format!(
            "defaults\n mode http\n timeout connect 2s\n timeout client 120s\n \
             timeout server 120s\n retries 3\n retry-on conn-failure\n option redispatch 1\n\
             listen codelab\n bind 127.0.0.1:{port}\n balance roundrobin\n option httpchk\n \
             http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host 127.0.0.1\n \
             http-check expect status 200\n default-server check inter 500 fall 2 rise 1\n"
        );
        for (index, server) in server_ports.iter().enumerate() {
            config.push_str(&format!(" server s{index} 127.0.0.1:{server}\n"));
        }
        let process = HaproxyProcess::start(folder, port, &config).await?;
        Some(Self {
            port,
            _process: process,
        })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

struct HaproxyProcess(Child);

impl HaproxyProcess {
    #[allow(clippy::print_stdout)]
    async fn start(folder: &Path, port: u16, config: &str) -> Option<Self> {
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
        let file = folder.join("haproxy.cfg");
        fs::write(&file, config).unwrap();
        let log = fs::File::create(folder.join("haproxy.log")).unwrap();
        let process = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let process = Self(process);
        eventually("HAProxy listens", async || {
            TcpStream::connect(("127.0.0.1", port))
        })
        .await;
        Some(process)
    }
}

impl Drop for HaproxyProcess {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// HAProxy cannot tell which port it took, so a free one is chosen for it.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
