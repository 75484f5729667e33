//! A socket of each running command in `$FULMAR_HOME/run`, by which `fulmar status` and `fulmar reload` find
//! it: one word in, one line of JSON out.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::report::{Observed, Report};
use crate::limits;
use crate::platform::{ControlListener, ask_control, make_private_folder};
use crate::turned_away::{self, Refused};

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest word that is listened to.
const WORD_BYTES_MAX: u64 = 64;

/// What a command answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To `status`.
    Reports(Vec<Report>),
    /// To `reload`.
    Reloaded(Vec<String>),
    /// To `refused`.
    Refused(Vec<Refused>),
    /// What could not be done.
    Failed(String),
}

/// The socket of this process. It goes away with this.
#[derive(Debug)]
pub struct Socket {
    listener: ControlListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Socket {
    /// Makes the socket, for the same user only.
    pub fn bind(home: &Path) -> io::Result<Self> {
        let folder = home.join("run");
        make_private_folder(&folder)?;
        let path = folder.join(format!("{}.sock", std::process::id()));
        Ok(Self { listener: ControlListener::bind(&path)?, path })
    }

    /// Answers until this is dropped.
    pub async fn serve(mut self, commands: Vec<Arc<dyn Observed>>) {
        loop {
            let Ok(stream) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let commands = commands.clone();
            tokio::spawn(tokio::time::timeout(PATIENCE, answer(stream, commands)));
        }
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite, commands: Vec<Arc<dyn Observed>>) -> io::Result<()> {
    let (recv, mut send) = tokio::io::split(stream);
    let mut word = String::new();
    BufReader::new(recv.take(WORD_BYTES_MAX)).read_line(&mut word).await?;
    let answer = match word.trim() {
        "status" => Answer::Reports(commands.iter().map(|command| command.report()).collect()),
        "reload" => match reload(&commands) {
            Ok(told) => Answer::Reloaded(told),
            Err(error) => Answer::Failed(error),
        },
        "refused" => Answer::Refused(turned_away::lately()),
        other => Answer::Failed(format!("`{other}` is not understood")),
    };
    let mut line = serde_json::to_vec(&answer).map_err(io::Error::other)?;
    line.push(b'\n');
    send.write_all(&line).await
}

/// Reads again what the commands and the process have of files; says what came of it.
pub fn reload(commands: &[Arc<dyn Observed>]) -> Result<Vec<String>, String> {
    let mut told: Vec<String> = commands.iter().map(|command| command.reload()).collect::<Result<_, _>>()?;
    told.extend(limits::reload().map_err(|failure| failure.to_string())?);
    Ok(told)
}

/// Says a word to every command that runs, and hears their answers, each with its process.
pub async fn ask_all(home: &Path, word: &str) -> Vec<(u32, Result<Answer, String>)> {
    let Ok(entries) = std::fs::read_dir(home.join("run")) else { return Vec::new() };
    let mut answers = Vec::new();
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let pid = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        let Some(pid) = pid.filter(|_| path.extension().is_some_and(|ext| ext == "sock")) else { continue };
        match tokio::time::timeout(PATIENCE, ask(&path, word)).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Left over by one that was killed.
                let _ = std::fs::remove_file(&path);
            }
            Ok(answer) => answers.push((pid, answer.map_err(|error| error.to_string()))),
            Err(_) => answers.push((pid, Err("does not answer".into()))),
        }
    }
    answers.sort_by_key(|(pid, _)| *pid);
    answers
}

async fn ask(path: &Path, word: &str) -> io::Result<Answer> {
    let (recv, mut send) = tokio::io::split(ask_control(path).await?);
    send.write_all(format!("{word}\n").as_bytes()).await?;
    let mut line = Vec::new();
    BufReader::new(recv).read_until(b'\n', &mut line).await?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Observed for Fixed {
        fn report(&self) -> Report {
            Report { command: "proxy".into(), ..Report::default() }
        }
        fn reload(&self) -> Result<String, String> {
            Err("line 3 is wrong".into())
        }
    }

    #[tokio::test]
    async fn commands_are_found_and_leftovers_removed() {
        let home = tempfile::tempdir().unwrap();
        let socket = Socket::bind(home.path()).unwrap();
        let dead = home.path().join("run/1.sock");
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let serving = tokio::spawn(socket.serve(vec![Arc::new(Fixed)]));

        let answers = ask_all(home.path(), "status").await;
        let [(pid, Ok(Answer::Reports(reports)))] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((*pid, reports[0].command.as_str()), (std::process::id(), "proxy"));
        assert!(!dead.exists());
        let answers = ask_all(home.path(), "reload").await;
        assert_eq!(answers[0].1, Ok(Answer::Failed("line 3 is wrong".into())));
        assert!(matches!(ask_all(home.path(), "sudo").await[0].1, Ok(Answer::Failed(_))));
        serving.abort();
        let _ = serving.await;
        assert!(ask_all(home.path(), "status").await.is_empty());
    }
}
