//! `fulmar status` on a terminal: a picture that is drawn anew.

use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::table::{COLUMNS, cells, title};
use crate::exit::Failure;
use crate::tunnel::watch::report::{ConnectionReport, Report};

/// How often the picture is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// Draws until `q` or Ctrl-C, and looks again by `look`.
pub(super) fn show(
    reports: Vec<Report>,
    look: impl Fn() -> Result<Vec<Report>, Failure>,
) -> Result<(), Failure> {
    let mut terminal = ratatui::init();
    let result = go_on(&mut terminal, reports, look);
    ratatui::restore();
    result
}

fn go_on(
    terminal: &mut DefaultTerminal,
    mut reports: Vec<Report>,
    look: impl Fn() -> Result<Vec<Report>, Failure>,
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
        before = std::mem::replace(&mut reports, look()?);
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

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::table::plain;
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
}
