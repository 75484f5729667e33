//! Sends a file, with its name and length before it; the receiver trusts keys in files.
//!
//! ```text
//! cargo run --release --example send_file -- receive 127.0.0.1:4747 /tmp/inbox
//! cargo run --release --example send_file -- send README.md 127.0.0.1:4747
//! ```
//!
//! Both use the identity in `$FULMAR_HOME`, and so trust each other. The program `fulmar` copies folders,
//! resumes and verifies; this shows how little the library needs.

use std::error::Error;
use std::path::{Path, PathBuf};

use fulmar::identity::{Home, Host};
use fulmar::{Connection, Endpoint, TransportConfig};
use tokio::io::AsyncReadExt;

/// No name of a file is longer.
const NAME_BYTES_MAX: usize = 4096;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let home = Home::locate()?;
    println!("this is {}", home.identity_or_create()?.public_key().fingerprint());
    match arguments[..] {
        ["send", file, to] => send(&home, Path::new(file), &to.parse()?).await,
        ["receive", at, folder] => {
            let server = home.server(at.parse()?, TransportConfig::default())?;
            receive(server, PathBuf::from(folder)).await
        }
        _ => Err("send FILE HOST:PORT, or receive ADDRESS:PORT FOLDER".into()),
    }
}

async fn send(home: &Home, path: &Path, to: &Host) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::client("[::]:0".parse()?)?;
    let connection = home
        .connect(&endpoint, to, TransportConfig::default(), async |server| {
            println!("new server {}, key {}: trusted from now on", server.host, server.fingerprint());
            true
        })
        .await?;
    let mut file = tokio::fs::File::open(path).await?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("the file has no name to send")?;
    let len = file.metadata().await?.len();

    let mut stream = connection.open_uni().await?;
    stream.write_all(&(name.len() as u64).to_be_bytes()).await?;
    stream.write_all(name.as_bytes()).await?;
    stream.write_all(&len.to_be_bytes()).await?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let len = file.read(&mut buffer).await?;
        if len == 0 {
            break;
        }
        stream.write_all(&buffer[..len]).await?;
    }
    stream.finish()?;
    // Resolves when all of it has been delivered.
    connection.shutdown(0, b"sent").await?;
    let stats = connection.stats();
    println!(
        "{name}: {len} bytes in {} datagrams, {:.2} % of symbols lost",
        stats.wire.sent_datagrams,
        100.0 * stats.loss_before_repair()
    );
    endpoint.wait_idle().await;
    Ok(())
}

async fn receive(endpoint: Endpoint, folder: PathBuf) -> Result<(), Box<dyn Error>> {
    println!("listening at {}", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        let folder = folder.clone();
        tokio::spawn(async move {
            let from = incoming.remote_address();
            let result = async { store(&incoming.await?, &folder).await }.await;
            match result {
                Ok(path) => println!("{from}: {}", path.display()),
                Err(error) => eprintln!("{from}: {error}"),
            }
        });
    }
    Ok(())
}

async fn store(connection: &Connection, folder: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
    let mut stream = connection.accept_uni().await?;
    let mut number = [0; 8];
    stream.read_exact(&mut number).await?;
    let len = usize::try_from(u64::from_be_bytes(number))?;
    if len > NAME_BYTES_MAX {
        return Err("the name is too long".into());
    }
    let mut name = vec![0; len];
    stream.read_exact(&mut name).await?;
    // Only the last part: nobody writes elsewhere.
    let name = PathBuf::from(String::from_utf8(name)?);
    let path = folder.join(name.file_name().ok_or("there is no name")?);
    stream.read_exact(&mut number).await?;
    tokio::fs::create_dir_all(folder).await?;
    let mut file = tokio::fs::File::create(&path).await?;
    let received = tokio::io::copy(&mut stream, &mut file).await?;
    if received != u64::from_be_bytes(number) {
        return Err(format!("{}: not complete", path.display()).into());
    }
    file.sync_all().await?;
    connection.closed().await;
    Ok(path)
}
