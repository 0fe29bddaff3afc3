//! The view on a terminal, and its keys.

use crate::options::Sort;
use crate::view::{Table, View};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Sparkline, Table as Grid};

/// Maximum samples whose requests a second are drawn.
const MAX_POINTS: usize = 300;

/// The user's choices, and the current view.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    pub(crate) sort: Sort,
    pub(crate) view: View,
    pub(crate) is_paused: bool,
    /// Why there is no newer sample.
    pub(crate) failure: Option<String>,
    /// Requests a second, the latest last.
    history: Vec<u64>,
    /// The number of clients scrolled out at the top.
    scrolled: usize,
}

/// The action after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Continue,
    Quit,
}

impl Screen {
    pub(crate) fn new(sort: Sort) -> Self {
        Screen { sort, ..Screen::default() }
    }

    /// Shows a new view, unless it is paused.
    pub(crate) fn take(&mut self, view: View) {
        if self.is_paused {
            return;
        }
        self.failure = None;
        self.history.push(view.requests_per_second);
        if self.history.len() > MAX_POINTS {
            self.history.remove(0);
        }
        self.view = view;
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> KeyAction {
        let last = self.view.clients.rows.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return KeyAction::Quit;
            }
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.scrolled = 0;
            }
            KeyCode::Down | KeyCode::Char('j') => self.scrolled = (self.scrolled + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled = (self.scrolled + 20).min(last),
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(20),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        KeyAction::Continue
    }

    /// Draws everything.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let lowest = [&self.view.phases, &self.view.hot_keys, &self.view.events];
        let rows = |table: &Table, most: u16| {
            let len = u16::try_from(table.rows.len()).unwrap_or(u16::MAX);
            if len == 0 { 0 } else { len.min(most) + 3 }
        };
        let figures = self.figures(frame.area().width.into());
        let [title, head, graph, above, clients, slow, below, help] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(u16::try_from(figures.len()).unwrap_or(u16::MAX).min(6)),
            Constraint::Length(3),
            Constraint::Max(rows(&self.view.commands, 6).max(rows(&self.view.workers, 6))),
            Constraint::Min(5),
            Constraint::Max(rows(&self.view.slow, 5)),
            Constraint::Max(lowest.into_iter().map(|table| rows(table, 4)).max().unwrap_or(0)),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(self.view.title.as_str(), bold), title);
        frame.render_widget(Paragraph::new(figures), head);
        let from = self.history.len().saturating_sub(usize::from(graph.width));
        let points = self.history.get(from..).unwrap_or_default();
        frame.render_widget(Sparkline::default().data(points), graph);
        draw_beside(frame, &[&self.view.commands, &self.view.workers], above);
        draw_table(frame, &self.view.clients, self.scrolled, clients);
        draw_table(frame, &self.view.slow, 0, slow);
        draw_beside(frame, &lowest, below);
        frame.render_widget(Line::raw(self.status()), help);
    }

    /// The figures, as many per line as fit into `room` columns of the screen.
    fn figures(&self, room: usize) -> Vec<Line<'static>> {
        let texts: Vec<String> =
            self.view.figures.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(1) + 3;
        let lines = texts.chunks((room / width).max(1)).map(|texts| {
            let cells = texts.iter().map(|text| format!("{text:<width$}"));
            Line::raw(cells.collect::<String>())
        });
        lines.collect()
    }

    /// The last line.
    fn status(&self) -> String {
        match &self.failure {
            Some(why) => format!("no answer: {why}"),
            None => {
                let paused = if self.is_paused { "paused  " } else { "" };
                format!(
                    "{paused}q quit  p pause  s sort (now {})  up/down scroll",
                    self.sort.name()
                )
            }
        }
    }
}

/// The space between columns, and between tables.
const SPACING: u16 = 2;

/// Draws the non-empty tables side by side.
fn draw_beside(frame: &mut Frame<'_>, tables: &[&Table], area: Rect) {
    let shown: Vec<&Table> =
        tables.iter().copied().filter(|table| !table.rows.is_empty()).collect();
    let wanted = shown.iter().map(|table| {
        let widths =
            (0..table.columns.len()).map(|column| width_of(table, table.rows.iter(), column));
        Constraint::Fill(u16::try_from(widths.sum::<usize>()).unwrap_or(u16::MAX).max(1))
    });
    let areas = Layout::horizontal(wanted).spacing(SPACING).split(area);
    for (table, area) in shown.into_iter().zip(areas.iter()) {
        draw_table(frame, table, 0, *area);
    }
}

fn draw_table(frame: &mut Frame<'_>, table: &Table, scrolled: usize, area: Rect) {
    if area.height < 3 {
        return;
    }
    let shown = || table.rows.iter().skip(scrolled).take(usize::from(area.height));
    let columns = fitting(table, shown, area.width.into());
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width as u16));
    let dim = Style::new().add_modifier(Modifier::DIM);
    let cells = |row: &[String]| {
        let cell = |(column, width): &(usize, usize)| {
            row.get(*column).map_or_else(String::new, |cell| shortened(cell, *width))
        };
        Row::new(columns.iter().map(cell).collect::<Vec<_>>())
    };
    let rows = shown().map(|row| cells(row));
    let [title, grid] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    frame.render_widget(
        Line::styled(table.title.as_str(), Style::new().add_modifier(Modifier::BOLD)),
        title,
    );
    let names: Vec<String> = table.columns.iter().map(|name| (*name).to_owned()).collect();
    let head = cells(&names).style(dim);
    frame.render_widget(Grid::new(rows, widths).header(head).column_spacing(SPACING), grid);
}

/// Columns of text, which may be shortened. A number is shown in full or not at all, since one
/// without its last digits is another number.
const OF_TEXT: [&str; 8] =
    ["address", "client", "command", "event", "family", "key", "name", "request"];

/// The columns that are shown within `room`, and their widths.
fn fitting<'t, R: Iterator<Item = &'t Vec<String>>>(
    table: &Table,
    rows: impl Fn() -> R,
    room: usize,
) -> Vec<(usize, usize)> {
    /// The least width of shortened text.
    const LEAST: usize = 8;
    let mut rest = room + usize::from(SPACING);
    let mut fitting = Vec::new();
    for (column, name) in table.columns.iter().enumerate() {
        let whole = width_of(table, rows(), column);
        let least = if OF_TEXT.contains(name) { whole.min(LEAST) } else { whole };
        if let Some(left) = rest.checked_sub(least + usize::from(SPACING)) {
            rest = left;
            fitting.push((column, least, whole));
        }
    }
    let widened = fitting.into_iter().map(|(column, least, whole)| {
        let more = rest.min(whole - least);
        rest -= more;
        (column, least + more)
    });
    widened.collect()
}

/// The width of a column that shortens nothing.
fn width_of<'t>(
    table: &Table,
    rows: impl Iterator<Item = &'t Vec<String>>,
    column: usize,
) -> usize {
    let cells = rows.filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
    let head = table.columns.get(column).map_or(0, |name| name.len());
    cells.chain([head]).max().unwrap_or(0)
}

/// Text of at most `width` characters, the last of which shows that something is missing.
fn shortened(text: &str, width: usize) -> String {
    match text.chars().count() <= width {
        true => text.to_owned(),
        false => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn press(screen: &mut Screen, code: KeyCode) -> KeyAction {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn everything_is_drawn() {
        let table = |title: &str, name: &str, count: usize| Table {
            title: title.to_owned(),
            columns: vec!["name"],
            rows: (0..count).map(|number| vec![format!("{name}{number}")]).collect(),
        };
        let mut screen = Screen::new(Sort::Memory);
        screen.take(View {
            title: "redis://x".to_owned(),
            figures: vec![("requests/s", "100".to_owned()), ("hits", "50 %".to_owned())],
            requests_per_second: 100,
            commands: table("Commands", "command", 3),
            clients: table("Clients", "client", 200),
            slow: table("Slow requests", "slow", 1),
            workers: table("Workers", "worker", 2),
            phases: table("Phases", "phase", 2),
            hot_keys: table("Hot keys", "hot", 1),
            ..View::default()
        });
        (0..5).for_each(|_| assert_eq!(press(&mut screen, KeyCode::Down), KeyAction::Continue));
        for (width, height) in [(100, 40), (30, 12), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| screen.draw(frame)).unwrap();
            let text = terminal.backend().to_string();
            if height == 40 {
                for shown in
                    ["redis://x", "requests/s 100", "command2", "client5", "slow0", "memory"]
                        .into_iter()
                        .chain(["worker1", "phase1", "hot0"])
                {
                    assert!(text.contains(shown), "{shown}: {text}");
                }
                assert!(!text.contains("client4 "), "{text}");
            }
        }
    }

    #[test]
    fn numbers_are_shown_in_full_or_not_at_all() {
        let row = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        let table = Table {
            title: "Clients".to_owned(),
            columns: vec!["id", "name", "requests", "db"],
            rows: vec![row(["12345", "a long name", "1234567890", "3"])],
        };
        let shown = |width: u16| {
            let mut terminal = Terminal::new(TestBackend::new(width, 3)).unwrap();
            terminal.draw(|frame| draw_table(frame, &table, 0, frame.area())).unwrap();
            let text = terminal.backend().to_string();
            text.lines().nth(2).unwrap().trim_matches(['"', ' ']).to_owned()
        };
        assert_eq!(shown(40), "12345  a long name  1234567890  3");
        assert_eq!(shown(29), "12345  a long na…  1234567890");
        assert_eq!(shown(20), "12345  a long n…  3");
        assert_eq!(shown(10), "12345  3");
        assert_eq!(shown(4), "3");
    }

    #[test]
    fn keys_act_as_the_last_line_says() {
        let mut screen = Screen::new(Sort::Age);
        press(&mut screen, KeyCode::Char('s'));
        assert_eq!(screen.sort, Sort::Requests);
        press(&mut screen, KeyCode::Char('p'));
        screen.take(View { title: "new".to_owned(), ..View::default() });
        assert_eq!((screen.view.title.as_str(), screen.status().starts_with("paused")), ("", true));
        press(&mut screen, KeyCode::Char('p'));
        screen.take(View { title: "new".to_owned(), ..View::default() });
        assert_eq!(screen.view.title, "new");
        assert_eq!(press(&mut screen, KeyCode::Esc), KeyAction::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(interrupt), KeyAction::Quit);
    }
}
