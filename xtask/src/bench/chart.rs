//! Line charts as SVG: a title, panels side by side, a legend.
//!
//! Colours are three of Okabe and Ito's, which people tell apart however they see colours; each
//! line has its own mark as well, and dashes say something apart from the colour.

use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 400.0;
/// Room for title, subtitle and legend; below for the axis; left of each panel for its numbers.
const TOP: f64 = 122.0;
const BOTTOM: f64 = 56.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 20.0;
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";

/// A whole picture.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) panels: Vec<Panel>,
    /// Names of the styles, in their order.
    pub(super) names: Vec<String>,
    /// What full and what dashed lines mean, if both are there.
    pub(super) dashes: Option<[&'static str; 2]>,
}

/// One pair of axes.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

/// Points that belong together, in the order of x.
pub(super) struct Line {
    /// Which of the names it is of.
    pub(super) style: usize,
    pub(super) is_dashed: bool,
    /// Whether each point is marked.
    pub(super) has_marks: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// What lies along one side.
pub(super) struct Axis {
    label: String,
    is_log: bool,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to beyond `most`, in round steps.
    pub(super) fn linear(label: &str, most: f64) -> Self {
        let rough = (most.max(1e-9) / 5.0).log10().floor();
        let unit = 10_f64.powf(rough);
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * unit);
        let step = step.into_iter().find(|step| most / step <= 6.0).unwrap_or(unit * 10.0);
        let count = (most / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|it| f64::from(it) * step);
        let ticks = ticks.map(|at| (at, round(at))).collect();
        Axis { label: label.to_owned(), is_log: false, from: 0.0, to: count * step, ticks }
    }

    /// Powers of ten of microseconds about `values`, each told in its own unit.
    pub(super) fn log_time(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, 1.0_f64), |(a, b), it| (a.min(it.max(1.0)), b.max(it)));
        let first = least.min(most).log10().floor();
        let last = most.log10().ceil().max(first + 1.0);
        let decades = (first as i32..=last as i32).map(|power| 10_f64.powi(power));
        let ticks = decades.map(|us| (us, time(us))).collect();
        let (from, to) = (10_f64.powf(first), 10_f64.powf(last));
        Axis { label: label.to_owned(), is_log: true, from, to, ticks }
    }

    /// Exactly these values, each twice the one before or so.
    pub(super) fn doubling(label: &str, values: &[f64]) -> Self {
        let ends = values.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)));
        let ticks = values.iter().map(|&value| (value, round(value))).collect();
        let (from, to) = (ends.0 / 1.15, ends.1 * 1.15);
        Axis { label: label.to_owned(), is_log: true, from, to, ticks }
    }

    /// Where a value lies, from 0 at the beginning to 1 at the end; what is beyond lies there.
    fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }
}

/// Without decimals that say nothing.
fn round(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

fn time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} µs"),
        ..1e6 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.0} s", us / 1e6),
    }
}

/// Where a panel is drawn.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn at(self, panel: &Panel, (x, y): (f64, f64)) -> (f64, f64) {
        let left = self.left + panel.x.place(x) * self.width;
        (left, self.top + (1.0 - panel.y.place(y)) * self.height)
    }
}

/// SVG that is being written.
struct Canvas(String);

impl Canvas {
    /// Appends an element; writing to a string does not fail.
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#));
    }

    fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), class: &str) {
        self.add(format_args!(
            r#"<line x1="{x:.1}" y1="{y:.1}" x2="{to_x:.1}" y2="{to_y:.1}" class="{class}"/>"#
        ));
    }

    /// A circle, a square or a triangle.
    fn mark(&mut self, (x, y): (f64, f64), style: usize, is_hollow: bool) {
        let colour = colour(style);
        let fill = if is_hollow { "#ffffff" } else { colour };
        let paint = format!(r#"fill="{fill}" stroke="{colour}" stroke-width="1.6""#);
        match style % COLOURS.len() {
            0 => self.add(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" {paint}/>"#)),
            1 => {
                let (x, y) = (x - 3.7, y - 3.7);
                self.add(format_args!(
                    r#"<rect x="{x:.1}" y="{y:.1}" width="7.4" height="7.4" {paint}/>"#
                ));
            }
            _ => self.add(format_args!(r#"<path d="M{x:.1} {:.1}l5 8.6h-10z" {paint}/>"#, y - 5.2)),
        }
    }
}

fn colour(style: usize) -> &'static str {
    COLOURS.get(style % COLOURS.len()).copied().unwrap_or("#000000")
}

impl Figure {
    /// The picture as a file of its own.
    pub(super) fn render(&self) -> String {
        let mut canvas = Canvas(String::new());
        canvas.add(format_args!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<style>
text {{ font: 12px {FONT}; fill: #444444 }}
.title {{ font-size: 18px; font-weight: 600; fill: #111111 }}
.subtitle {{ font-size: 13px }}
.panel {{ font-size: 13px; font-weight: 600; fill: #111111 }}
.right {{ text-anchor: end }}
.middle {{ text-anchor: middle }}
.grid {{ stroke: #e3e3e3; stroke-width: 1 }}
.axis {{ stroke: #777777; stroke-width: 1 }}
</style>
<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>"##
        ));
        canvas.text((24.0, 34.0), "title", &self.title);
        canvas.text((24.0, 54.0), "subtitle", &self.subtitle);
        self.draw_legend(&mut canvas);
        let count = self.panels.len().max(1) as f64;
        let width = WIDTH / count;
        for (index, panel) in self.panels.iter().enumerate() {
            let area = Area {
                left: width * index as f64 + LEFT,
                top: TOP,
                width: width - LEFT - RIGHT,
                height: HEIGHT - TOP - BOTTOM,
            };
            panel.draw(&mut canvas, area);
        }
        canvas.0.push_str("</svg>\n");
        canvas.0
    }

    fn draw_legend(&self, canvas: &mut Canvas) {
        let (mut x, y) = (24.0, 78.0);
        for (style, name) in self.names.iter().enumerate() {
            stroke(canvas, &[(x, y), (x + 26.0, y)], style, false);
            canvas.mark((x + 13.0, y), style, false);
            canvas.text((x + 33.0, y + 4.0), "key", name);
            x += 33.0 + 7.0 * name.chars().count() as f64 + 24.0;
        }
        let dashes = self.dashes.iter().flatten().zip([false, true]);
        for (name, is_dashed) in dashes {
            let dash = if is_dashed { r#" stroke-dasharray="5 4""# } else { "" };
            let to = x + 26.0;
            canvas.add(format_args!(
                r##"<path d="M{x:.1} {y:.1}H{to:.1}" stroke="#444444" stroke-width="2"{dash}/>"##
            ));
            canvas.text((x + 33.0, y + 4.0), "key", name);
            x += 33.0 + 7.0 * name.chars().count() as f64 + 18.0;
        }
    }
}

impl Panel {
    fn draw(&self, canvas: &mut Canvas, area: Area) {
        let (bottom, right) = (area.top + area.height, area.left + area.width);
        canvas.text((area.left, area.top - 12.0), "panel", &self.title);
        for (at, label) in &self.y.ticks {
            let y = bottom - self.y.place(*at) * area.height;
            canvas.line((area.left, y), (right, y), "grid");
            canvas.text((area.left - 8.0, y + 4.0), "right", label);
        }
        for (at, label) in &self.x.ticks {
            let x = area.left + self.x.place(*at) * area.width;
            canvas.line((x, bottom), (x, bottom + 5.0), "axis");
            canvas.text((x, bottom + 20.0), "middle", label);
        }
        canvas.line((area.left, bottom), (right, bottom), "axis");
        canvas.text((area.left + area.width / 2.0, bottom + 42.0), "middle", &self.x.label);
        let label = (area.left + area.width, area.top - 12.0);
        canvas.text(label, "right", &self.y.label);
        for line in &self.lines {
            let seen = line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let places: Vec<_> = seen.map(|&point| area.at(self, point)).collect();
            stroke(canvas, &places, line.style, line.is_dashed);
            if line.has_marks {
                places.iter().for_each(|&at| canvas.mark(at, line.style, line.is_dashed));
            }
        }
    }
}

fn stroke(canvas: &mut Canvas, places: &[(f64, f64)], style: usize, is_dashed: bool) {
    let mut path = String::new();
    for (index, (x, y)) in places.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    let dash = if is_dashed { r#" stroke-dasharray="5 4""# } else { "" };
    let (colour, width) = (colour(style), if is_dashed { 1.6 } else { 2.2 });
    canvas.add(format_args!(
        r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>"#
    ));
}

#[cfg(test)]
mod tests {
    use super::{Axis, Figure, Line, Panel, round, time};

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let labels = |axis: &Axis| -> Vec<String> {
            axis.ticks.iter().map(|(_, label)| label.clone()).collect()
        };
        assert_eq!(labels(&Axis::linear("MB", 930.0)), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(labels(&Axis::linear("s", 3.1)), ["0", "1", "2", "3", "4"]);
        let times = Axis::log_time("", [0.0, 41.0, 91_000.0, f64::NAN].into_iter());
        assert_eq!(labels(&times), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!((times.place(1.0), times.place(0.0), times.place(1e9)), (0.0, 0.0, 1.0));
        assert!((times.place(1e3) - 0.6).abs() < 1e-9);
        assert_eq!(labels(&Axis::doubling("GB", &[0.25, 0.5, 1.0])), ["0.25", "0.5", "1"]);
        assert_eq!((round(2.50), time(2e6)), ("2.5".to_owned(), "2 s".to_owned()));
    }

    #[test]
    fn a_figure_is_whole_and_its_text_is_escaped() {
        let line = |style, is_dashed| Line {
            style,
            is_dashed,
            has_marks: true,
            points: vec![(1.0, 5.0), (2.0, f64::NAN), (4.0, 700.0)],
        };
        let figure = Figure {
            title: "a < b & c".to_owned(),
            subtitle: String::new(),
            panels: vec![Panel {
                title: "p99".to_owned(),
                x: Axis::doubling("GB", &[1.0, 2.0, 4.0]),
                y: Axis::log_time("", [5.0, 700.0].into_iter()),
                lines: vec![line(0, false), line(2, true)],
            }],
            names: vec!["nagi".to_owned()],
            dashes: Some(["saving", "without"]),
        };
        let svg = figure.render();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "the legend and the line");
        assert_eq!(svg.matches("<path d=\"M").count(), 7, "{svg}");
    }
}
