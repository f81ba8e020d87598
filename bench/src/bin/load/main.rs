//! `load`: measures CodeLab under load through its public API, beside a bare relay on the same
//! machine in the same run.
//!
//! The model, the relay, the load generator and the server are separate processes. All but the
//! server are this program, started with the name of a part as its first argument.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark says what it measured"
)]

mod files;
mod generate;
mod limit;
mod model;
mod postgres;
mod process;
mod suite;
mod table;
mod wire;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::ensure;
use clap::{Parser, Subcommand};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

use postgres::PostgresServer;
use process::Served;
use suite::{Size, Suite};

const BACKLOG: u32 = 4096;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// Run everything once with small amounts, to see that it works; the results mean nothing
    #[arg(long)]
    quick: bool,
    /// Folder on the disk to measure; temporary folders are created in it
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// The `codelab` program; default: the one beside this program
    #[arg(long)]
    program: Option<PathBuf>,
    /// Databases to measure on
    #[arg(long, value_delimiter = ',', default_value = "sqlite,postgres")]
    databases: Vec<Database>,
    /// How many servers. With 2, only what forwarding costs is measured, on PostgreSQL: turns that
    /// enter at the server that owns their session, and turns that enter at the other one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    servers: u8,
    /// Only workloads whose name starts with one of these (W1, W2, … , start, growth)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
}

/// The parts of a run, which it starts itself.
#[derive(Subcommand)]
enum Part {
    #[command(hide = true)]
    Model,
    #[command(hide = true)]
    Limit { model: String },
    #[command(hide = true)]
    Generate,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    files::raise();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match &options.part {
            Some(Part::Model) => model::serve(listen("the model").await?).await,
            Some(Part::Limit { model }) => limit::serve(listen("the relay").await?, model).await,
            Some(Part::Generate) => generate::run().await,
            None => {
                // Dropping it ends every process that it started.
                tokio::select! {
                    measured = measure(&options) => measured,
                    () = stopped() => anyhow::bail!("stopped"),
                }
            }
        }
    })
}

async fn stopped() {
    let mut terminated = signal(SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminated {
            Some(terminated) => drop(terminated.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

async fn listen(name: &str) -> anyhow::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    // Hundreds of clients connect at once. One that finds the backlog full tries again only after a
    // second.
    let listener = socket.listen(BACKLOG)?;
    say(&format!("{name} is at http://{}", listener.local_addr()?));
    Ok(listener)
}

async fn measure(options: &Options) -> anyhow::Result<()> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("codelab"),
    };
    ensure!(
        program.is_file(),
        "{} does not exist; run: cargo build --release --bin codelab",
        program.display()
    );
    let size = if options.quick {
        Size::quick()
    } else {
        Size::full()
    };
    files::ensure(size.open_files())?;
    for (name, value) in process::RAISED {
        say(&format!("set for this run: {name}={value}"));
    }
    let model = Served::part("model", &[]).await?;
    let limit = Served::part("limit", &[&format!("http://{}", model.addr)]).await?;
    let databases: &[Database] = match options.servers {
        1 => &options.databases,
        _ => &[Database::Postgres],
    };
    for database in databases {
        let postgres = match database {
            Database::Sqlite => None,
            Database::Postgres => Some(PostgresServer::start(&options.dir)?),
        };
        let name = if postgres.is_some() {
            "PostgreSQL"
        } else {
            "SQLite"
        };
        let mut suite = Suite {
            size: &size,
            program: &program,
            dir: &options.dir,
            postgres: postgres.as_ref(),
            model: &model,
            limit: &limit,
            only: &options.only,
            rows: Vec::new(),
        };
        match options.servers {
            1 => suite.run().await?,
            _ => suite.forwarded().await?,
        }
        let heads = match options.servers {
            1 => ("CodeLab", "`limit`"),
            _ => ("forwarded", "direct"),
        };
        say(&table::of(name, heads, &suite.rows));
    }
    Ok(())
}

fn say(line: &str) {
    println!("{line}");
}

/// Prints the progress for the person who waits.
fn progress(line: &str) {
    eprintln!("{line}");
}
