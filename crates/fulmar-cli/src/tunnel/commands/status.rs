//! `fulmar status` and `fulmar reload`: a look at all commands that run under this user's home, and a word to
//! them.

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use crate::exit::Failure;
use crate::trust;
use crate::tunnel::watch::control::{Answer, ask_all};
use crate::tunnel::watch::report::{ConnectionReport, Report};
use crate::units;

/// How often the picture is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// What each column of a connection is called, and how wide it is.
const COLUMNS: [(&str, u16); 12] = [
    ("PEER", 22),
    ("WAY", 3),
    ("KEY", 11),
    ("STREAMS", 7),
    ("SENDING", 10),
    ("RECEIVING", 10),
    ("RTT", 9),
    ("LOST", 7),
    ("UNREPAIRED", 10),
    ("REPAIR", 7),
    ("WINDOW", 8),
    ("QUEUE", 8),
];

/// Show your running fulmar processes: connections, rates, losses.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print once and exit (default without a terminal)
    #[arg(long)]
    once: bool,
    /// Print once, in JSON
    #[arg(long)]
    pub json: bool,
}

/// Reload config.toml and authorized_keys in your running fulmar processes.
///
/// Connections stay. A mistake in a file is reported with its line, changes nothing, and gives exit code 1.
#[derive(Debug, clap::Args)]
pub struct ReloadArgs {
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `status`.
pub async fn run(args: Args) -> Result<(), Failure> {
    let reports = look().await?;
    if args.json {
        let reports = serde_json::to_string_pretty(&reports).map_err(|e| Failure::Other(e.to_string()))?;
        println!("{reports}");
        return Ok(());
    }
    if args.once || !std::io::stdout().is_terminal() {
        plain(&reports).iter().for_each(|line| println!("{line}"));
        return Ok(());
    }
    let handle = tokio::runtime::Handle::current();
    let shown = tokio::task::spawn_blocking(move || {
        let mut terminal = ratatui::init();
        let result = show(&mut terminal, &handle, reports);
        ratatui::restore();
        result
    });
    shown.await.map_err(|e| Failure::Other(e.to_string()))?
}

/// Runs `reload`.
pub async fn reload(args: ReloadArgs) -> Result<(), Failure> {
    let answers = ask_all(trust::home()?.path(), "reload").await;
    if answers.is_empty() {
        return Err(Failure::Other("nothing runs here that could read its files again".into()));
    }
    let mut failed = Vec::new();
    let mut told = Vec::new();
    for (pid, answer) in answers {
        match answer {
            Ok(Answer::Reloaded(lines)) => told.extend(lines.into_iter().map(|line| (pid, line))),
            Ok(Answer::Failed(why)) | Err(why) => failed.push(format!("process {pid}: {why}")),
            Ok(Answer::Reports(_) | Answer::Refused(_)) => {
                failed.push(format!("process {pid}: another answer than was asked for"))
            }
        }
    }
    if args.json {
        let told: Vec<_> =
            told.iter().map(|(pid, line)| serde_json::json!({ "pid": pid, "told": line })).collect();
        println!("{}", serde_json::json!({ "ok": failed.is_empty(), "reloaded": told, "failed": failed }));
    } else {
        told.iter().for_each(|(pid, line)| println!("process {pid}: {line}"));
    }
    match failed.is_empty() {
        true => Ok(()),
        false if args.json => Err(Failure::Reported(Box::new(Failure::Other(failed.join("\n"))))),
        false => Err(Failure::Other(failed.join("\n"))),
    }
}

async fn look() -> Result<Vec<Report>, Failure> {
    let answers = ask_all(trust::home()?.path(), "status").await;
    let reports = answers.into_iter().filter_map(|(_, answer)| match answer {
        Ok(Answer::Reports(reports)) => Some(reports),
        _ => None,
    });
    Ok(reports.flatten().collect())
}

/// Draws until `q` or Ctrl-C.
fn show(
    terminal: &mut DefaultTerminal,
    handle: &tokio::runtime::Handle,
    mut reports: Vec<Report>,
) -> Result<(), Failure> {
    let broken = |error: std::io::Error| Failure::Other(format!("the terminal: {error}"));
    let mut before = reports.clone();
    loop {
        terminal.draw(|frame| draw(frame, &reports, &before)).map_err(broken)?;
        if event::poll(REDRAW).map_err(broken)?
            && let Event::Key(key) = event::read().map_err(broken)?
        {
            let is_interrupt =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(());
            }
            continue;
        }
        before = std::mem::replace(&mut reports, handle.block_on(look())?);
    }
}

fn draw(frame: &mut Frame<'_>, reports: &[Report], before: &[Report]) {
    if reports.is_empty() {
        let text = "Nothing runs here: no server, gateway, proxy or forward of this user. (q ends)";
        return frame.render_widget(Paragraph::new(text), frame.area());
    }
    let heights = reports.iter().map(|report| Constraint::Length(report.connections.len() as u16 + 3));
    let areas = Layout::vertical(heights).split(frame.area());
    for (report, area) in reports.iter().zip(areas.iter()) {
        let last =
            before.iter().find(|b| b.pid == report.pid && b.command == report.command && b.at == report.at);
        let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(*area);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(title(report), bold), head);
        let rows = report.connections.iter().map(|c| Row::new(cells(c, rates(report, last, c))));
        let header = Row::new(COLUMNS.map(|(name, _)| name)).style(Style::new().add_modifier(Modifier::DIM));
        let widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
        frame.render_widget(Table::new(rows, widths).header(header), body);
    }
}

fn title(report: &Report) -> String {
    let time = Duration::from_secs_f64(report.up_seconds.clamp(0.0, 1e9));
    let drops = report.drops();
    let causes: Vec<_> =
        drops.iter().map(|(cause, count)| format!("{} {count}", cause.replace('_', " "))).collect();
    let dropped = match drops.iter().map(|(_, count)| count).sum::<u64>() {
        0 => String::new(),
        all => format!(", {all} packets dropped ({})", causes.join(", ")),
    };
    let relation = match report.command.as_str() {
        "cp" => " with",
        // Its places have their own words: `forward at 127.0.0.1:8389`.
        "up" => ":",
        _ => " at",
    };
    let sum = |of: fn(&ConnectionReport) -> u64| report.connections.iter().map(of).sum::<u64>();
    let (lost, repaired) = (sum(|c| c.repaired_lost), sum(|c| c.repaired));
    let repair = match lost + repaired {
        0 => String::new(),
        _ => format!(", UDP: {repaired} packets lost and repaired, {lost} lost"),
    };
    format!(
        "{}{relation} {} (process {}, for {}): {} up, {} down, {} flows, {} refused{repair}{dropped}",
        report.command,
        report.at,
        report.pid,
        units::duration(time),
        units::bytes(report.up_bytes),
        units::bytes(report.down_bytes),
        report.opened,
        report.refused
    )
}

/// Bytes sent and received per second since the picture before.
fn rates(report: &Report, last: Option<&Report>, connection: &ConnectionReport) -> (f64, f64) {
    let Some(last) = last else { return (0.0, 0.0) };
    let Some(earlier) = last.connections.iter().find(|c| c.peer == connection.peer) else {
        return (0.0, 0.0);
    };
    let seconds = (report.up_seconds - last.up_seconds).max(0.001);
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8.0 / 1e6 / seconds;
    (rate(connection.sent_bytes, earlier.sent_bytes), rate(connection.received_bytes, earlier.received_bytes))
}

fn cells(c: &ConnectionReport, (sending, receiving): (f64, f64)) -> [String; 12] {
    let repair = 100.0 * c.wire.repair_symbols as f64 / (c.wire.source_symbols as f64).max(1.0);
    [
        c.peer.clone(),
        c.way.clone(),
        // Without a comment, the beginning of the key's fingerprint.
        if c.comment.is_empty() {
            c.key.trim_start_matches("SHA256:").chars().take(11).collect()
        } else {
            c.comment.clone()
        },
        c.streams.to_string(),
        units::rate(sending),
        units::rate(receiving),
        format!("{:.1} ms", c.wire.rtt_ms),
        format!("{:.2}%", c.wire.loss_before_repair_percent),
        format!("{:.2}%", c.wire.loss_after_repair_percent),
        format!("{repair:.1}%"),
        units::bytes(c.wire.window_bytes),
        units::bytes(c.queued_bytes),
    ]
}

/// The same as lines of text.
fn plain(reports: &[Report]) -> Vec<String> {
    let join = |cells: [String; 12]| {
        let padded =
            cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:<0$}", width as usize));
        format!("  {}", padded.collect::<Vec<_>>().join(" ")).trim_end().to_owned()
    };
    if reports.is_empty() {
        return vec!["Nothing runs here: no server, gateway, proxy or forward of this user.".into()];
    }
    let mut lines = Vec::new();
    for report in reports {
        lines.push(title(report));
        if !report.connections.is_empty() {
            lines.push(join(COLUMNS.map(|(name, _)| name.to_owned())));
        }
        lines.extend(report.connections.iter().map(|c| join(cells(c, (0.0, 0.0)))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn the_picture_shows_commands_and_their_connections() {
        let connection = ConnectionReport {
            peer: "192.0.2.1:4747".into(),
            comment: "alice".into(),
            way: "tcp".into(),
            outgrown_datagrams: 2,
            repaired: 7,
            repaired_lost: 1,
            ..ConnectionReport::default()
        };
        let before = Report {
            command: "proxy".into(),
            at: "127.0.0.1:1080".into(),
            connections: vec![connection.clone()],
            dropped_packets: [("inbox_full".to_owned(), 3), ("socket".to_owned(), 0)].into(),
            ..Report::default()
        };
        let now = Report {
            up_seconds: 1.0,
            connections: vec![ConnectionReport { sent_bytes: 1_250_000, ..connection }],
            ..before.clone()
        };
        let told = plain(std::slice::from_ref(&now)).join("\n");
        let udp = "UDP: 7 packets lost and repaired, 1 lost";
        for words in ["5 packets dropped (inbox full 3, outgrown 2)", udp, "alice", "4747         tcp"] {
            assert!(told.contains(words), "{words} is not in\n{told}");
        }
        let mut terminal = Terminal::new(TestBackend::new(120, 10)).unwrap();
        terminal.draw(|frame| draw(frame, &[now], &[before])).unwrap();
        let picture = terminal.backend().to_string();
        for words in ["proxy at 127.0.0.1:1080", "192.0.2.1:4747", "alice", "10.0 Mb/s", "UNREPAIRED"] {
            assert!(picture.contains(words), "{words} is not in\n{picture}");
        }
        // Too small a window is no reason to fail.
        let mut tiny = Terminal::new(TestBackend::new(3, 1)).unwrap();
        tiny.draw(|frame| draw(frame, &vec![Report::default(); 5], &[])).unwrap();
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert!(plain(&[])[0].contains("Nothing runs"));
    }
}
