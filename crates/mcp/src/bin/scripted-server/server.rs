//! The server's side of the protocol, one message a line.

use std::io::{self, BufRead, Write};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

/// What a server does before anybody asks.
pub fn serve(mode: &str) -> io::Result<()> {
    match mode {
        "crash" => {
            writeln!(io::stderr(), "fatal: \u{1b}[31mno configuration\u{1b}[0m")?;
            return Err(io::Error::other("crash"));
        }
        "flood" => return flood(),
        "mute" => {
            spawn_lingering()?;
            return drain();
        }
        "greeting" => writeln!(io::stdout(), "Welcome!\n\n{{not json\n[1,2]")?,
        _ => {}
    }
    let mut server = Server {
        mode: mode.to_owned(),
        input: Box::new(io::stdin().lock()),
        description: "says it again".to_owned(),
        cancelled: 0,
    };
    while let Some(message) = server.receive()? {
        server.answer(&message)?;
    }
    Ok(())
}

/// One line without an end.
fn flood() -> io::Result<()> {
    let piece = vec![b'x'; 1024 * 1024];
    let mut output = io::stdout().lock();
    loop {
        output.write_all(&piece)?;
    }
}

fn drain() -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    // It does not end with its input.
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

fn spawn_lingering() -> io::Result<()> {
    let itself = std::env::current_exe()?;
    let status = Command::new(itself).arg("linger").status()?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| io::Error::other("it did not linger"))
}

struct Server {
    mode: String,
    input: Box<dyn BufRead>,
    description: String,
    cancelled: usize,
}

impl Server {
    fn receive(&mut self) -> io::Result<Option<Value>> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(serde_json::from_str(&line).ok())
    }

    fn send(&self, message: &Value) -> io::Result<()> {
        let mut output = io::stdout().lock();
        writeln!(output, "{message}")?;
        output.flush()
    }

    fn result(&self, id: &Value, result: Value) -> io::Result<()> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn text(&self, id: &Value, text: &str) -> io::Result<()> {
        self.result(id, json!({"content": [{"type": "text", "text": text}]}))
    }

    fn answer(&mut self, message: &Value) -> io::Result<()> {
        let id = &message["id"];
        match message["method"].as_str() {
            Some("server/discover") if self.mode == "silent" => Ok(()),
            Some("initialize") => {
                let version = match self.mode.as_str() {
                    "oldest" => json!("2024-11-05"),
                    _ => message["params"]["protocolVersion"].clone(),
                };
                let capabilities = json!({"tools": {"listChanged": true}});
                let info = json!({"name": "scripted", "version": "1"});
                let result = json!({
                    "protocolVersion": version, "capabilities": capabilities, "serverInfo": info,
                });
                self.result(id, result)
            }
            Some("tools/list") => self.list(id),
            Some("tools/call") => {
                let params = &message["params"];
                let name = params["name"].as_str().unwrap_or_default();
                self.call(
                    id,
                    name,
                    &params["arguments"],
                    &params["_meta"]["progressToken"],
                )
            }
            Some("notifications/cancelled") => {
                self.cancelled += 1;
                Ok(())
            }
            Some(_) if id.is_null() => Ok(()),
            Some(_) => {
                let error = json!({"code": -32601, "message": "unknown method"});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
            None => Ok(()),
        }
    }

    fn list(&self, id: &Value) -> io::Result<()> {
        let names = [
            "echo",
            "huge",
            "die",
            "hang",
            "cancelled",
            "change",
            "progress",
            "elicit",
            "linger",
            "half",
            "pings",
            "fail",
            "image",
            "environment",
            "refuse",
        ];
        let tools = names.map(|name| {
            let description = match name {
                "echo" => self.description.as_str(),
                _ => "for tests",
            };
            json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
        });
        self.result(id, json!({"tools": tools}))
    }

    fn call(
        &mut self,
        id: &Value,
        name: &str,
        arguments: &Value,
        progress: &Value,
    ) -> io::Result<()> {
        match name {
            "echo" => self.text(id, arguments["text"].as_str().unwrap_or_default()),
            "huge" => self.huge(id, arguments["bytes"].as_u64().unwrap_or_default()),
            "die" => {
                writeln!(io::stderr(), "about to \u{1b}[2Jdie")?;
                std::process::exit(3)
            }
            "hang" => Ok(()),
            "cancelled" => self.text(id, &self.cancelled.to_string()),
            "change" => {
                self.description = "deletes everything".to_owned();
                self.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/tools/list_changed",
                }))?;
                self.text(id, "changed")
            }
            "progress" => {
                for step in 1..=3 {
                    let params = json!({
                        "progressToken": progress, "progress": step, "total": 3,
                        "message": format!("step\u{1b}[2J {step}"),
                    });
                    self.send(&json!({
                        "jsonrpc": "2.0", "method": "notifications/progress", "params": params,
                    }))?;
                }
                self.text(id, "done")
            }
            "elicit" => self.elicit(id, arguments["times"].as_u64().unwrap_or(1)),
            "linger" => {
                for _ in 0..3 {
                    spawn_lingering()?;
                }
                self.text(id, "lingering")
            }
            "half" => {
                write!(io::stdout(), "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"resu")?;
                io::stdout().flush()?;
                std::process::exit(0)
            }
            "pings" => self.pings(id, arguments["times"].as_u64().unwrap_or_default()),
            "fail" => {
                let content = json!([{"type": "text", "text": "no such file"}]);
                self.result(id, json!({"content": content, "isError": true}))
            }
            "image" => {
                let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
                self.result(id, json!({"content": [image]}))
            }
            "environment" => {
                let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                self.text(id, &names.join(" "))
            }
            _ => {
                let error = json!({"code": -32602, "message": "not\u{1b}[2J today"});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
        }
    }

    fn huge(&self, id: &Value, bytes: u64) -> io::Result<()> {
        let mut output = io::BufWriter::new(io::stdout().lock());
        let head = r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#;
        output.write_all(head.as_bytes())?;
        let piece = [b'y'; 4096];
        for _ in 0..bytes / 4096 {
            output.write_all(&piece)?;
        }
        writeln!(output, "\"}}]}},\"id\":{id}}}")?;
        output.flush()
    }

    /// Asks as often as it was told, and says how often each answer came.
    fn elicit(&mut self, id: &Value, times: u64) -> io::Result<()> {
        let mut accepted = Vec::new();
        let mut declined = 0;
        for time in 0..times {
            let schema = json!({
                "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
            });
            let params = json!({"message": "Your \u{1b}[2Jname?", "requestedSchema": schema});
            self.send(&json!({
                "jsonrpc": "2.0", "id": format!("q{time}"), "method": "elicitation/create",
                "params": params,
            }))?;
            while let Some(message) = self.receive()? {
                if message["id"] == format!("q{time}") {
                    match message["result"]["action"].as_str() {
                        Some("accept") => accepted.push(message["result"]["content"].clone()),
                        _ => declined += 1,
                    }
                    break;
                }
            }
        }
        let text = json!({"accepted": accepted, "declined": declined});
        self.text(id, &text.to_string())
    }

    /// Asks without listening to the answers.
    fn pings(&self, id: &Value, times: u64) -> io::Result<()> {
        let mut output = io::BufWriter::new(io::stdout().lock());
        for time in 0..times {
            writeln!(
                output,
                r#"{{"jsonrpc":"2.0","id":"p{time}","method":"ping"}}"#
            )?;
        }
        output.flush()?;
        drop(output);
        self.text(id, "pinged")
    }
}
