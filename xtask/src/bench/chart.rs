//! Draws line charts and dot plots as SVG with plotters: a title, panels side by side, a legend.
//!
//! The colours are four of Okabe and Ito's palette, which readers with any colour vision can
//! distinguish. Each line also has its own mark. Dashes carry a meaning that is independent of the
//! colour.

use std::ops::Range;

use anyhow::Result;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::{CoordTranslate, Shift};
use plotters::element::DashedPathElement;
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, DashedLineSeries, DrawingArea, EmptyElement, FontStyle,
    IntoDrawingArea, LineSeries, PathElement, Polygon, RGBColor, Rectangle, SVGBackend,
    TRANSPARENT, Text, TriangleMarker, WHITE,
};
use plotters::style::{Color, TextStyle};

const WIDTH: u32 = 860;
/// The minimum height of a figure, in pixels.
const HEIGHT: u32 = 420;
/// The height of a category's row, in pixels.
const ROW_HEIGHT: u32 = 24;
/// The maximum width of a character in a tick's label, in pixels.
const LABEL_CHARACTER_WIDTH: u32 = 8;
/// The height of title, subtitle and legend together, in pixels.
const HEAD: u32 = 100;
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];
const GREY: RGBColor = RGBColor(68, 68, 68);
const FONT: &str = "sans-serif";

/// A figure with all its panels.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) panels: Vec<Panel>,
    /// The names of the styles, in the order of their indices.
    pub(super) names: Vec<String>,
    /// The meanings of solid and of dashed lines, if a figure has both.
    pub(super) dashes: Option<[&'static str; 2]>,
}

/// A pair of axes with its lines.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

/// The points of one line, in the order of x.
pub(super) struct Line {
    /// Whether the points are joined.
    pub(super) is_joined: bool,
    /// The index of the line's style in `Figure::names`.
    pub(super) style: usize,
    pub(super) is_dashed: bool,
    /// Whether each point is marked.
    pub(super) has_marks: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// One axis.
#[derive(Clone)]
pub(super) struct Axis {
    label: String,
    is_log: bool,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates an axis from 0 to beyond `most`, in round steps.
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

    /// Creates an axis of powers of ten of microseconds around `values`. Each is labelled in a
    /// suitable unit.
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

    /// Creates an axis with a tick at each of `values`, each of which is about twice the previous
    /// one.
    pub(super) fn doubling(label: &str, values: &[f64]) -> Self {
        let ends = values.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v)));
        let ticks = values.iter().map(|&value| (value, round(value))).collect();
        let (from, to) = (ends.0 / 1.15, ends.1 * 1.15);
        Axis { label: label.to_owned(), is_log: true, from, to, ticks }
    }

    /// Creates an axis of names from top to bottom. The first is at 0, the second at -1.
    pub(super) fn categories(names: &[&str]) -> Self {
        let at = |index: usize| -(index as f64);
        let ticks = names.iter().enumerate().map(|(index, &name)| (at(index), name.to_owned()));
        let (from, to) = (at(names.len()) + 0.5, 0.5);
        Axis { label: String::new(), is_log: false, from, to, ticks: ticks.collect() }
    }

    /// Returns the width of the longest tick label, in pixels.
    fn label_width(&self) -> u32 {
        let lengths = self.ticks.iter().map(|(_, label)| label.chars().count() as u32);
        lengths.max().unwrap_or(0) * LABEL_CHARACTER_WIDTH
    }

    /// Returns the position of a value, from 0 at the start to 1 at the end. Values beyond are
    /// clamped.
    fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }
}

/// Formats a number without insignificant decimals.
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

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        first + (self.place(*value) * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(at, _)| at == value);
        tick.map_or(String::new(), |(_, label)| label.clone())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Figure {
    /// Renders the figure as a standalone SVG file.
    pub(super) fn render(&self) -> Result<String> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH, self.height())).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD);
        head.draw(&Text::new(
            self.title.as_str(),
            (24, 20),
            TextStyle::from((FONT, 22, FontStyle::Bold)),
        ))?;
        head.draw(&Text::new(
            self.subtitle.as_str(),
            (24, 44),
            TextStyle::from((FONT, 15)).color(&GREY),
        ))?;
        self.draw_legend(&head)?;
        for (area, panel) in
            body.split_evenly((1, self.panels.len().max(1))).iter().zip(&self.panels)
        {
            panel.draw(area)?;
        }
        root.present()?;
        drop((head, body, root));
        Ok(svg)
    }

    fn height(&self) -> u32 {
        let rows = self.panels.iter().map(|panel| panel.y.ticks.len() as u32).max().unwrap_or(0);
        HEIGHT.max(HEAD + (rows + 3) * ROW_HEIGHT)
    }

    fn draw_legend(&self, head: &Area<'_>) -> Result<()> {
        let names = self.names.iter().map(String::as_str).enumerate();
        let names = names.map(|(style, name)| (name, Some(style), false));
        let dashes = self.dashes.iter().flatten().zip([false, true]);
        let dashes = dashes.map(|(name, is_dashed)| (*name, None, is_dashed));
        let (mut x, y) = (24, 76);
        for (name, style, is_dashed) in names.chain(dashes) {
            let colour = style.map_or(GREY, colour);
            let ends = [(x, y), (x + 26, y)];
            if is_dashed {
                head.draw(&DashedPathElement::new(ends, 5, 4, colour.stroke_width(2)))?;
            } else {
                head.draw(&PathElement::new(ends, colour.stroke_width(2)))?;
            }
            if let Some(style) = style {
                mark(head, (x + 13, y), style, false)?;
            }
            head.draw(&Text::new(name, (x + 33, y - 8), TextStyle::from((FONT, 15)).color(&GREY)))?;
            x += 64 + 7 * name.chars().count() as i32;
        }
        Ok(())
    }
}

impl Panel {
    fn draw(&self, area: &Area<'_>) -> Result<()> {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 16))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(self.y.label_width().max(58))
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .label_style(TextStyle::from((FONT, 14)).color(&GREY))
            .draw()?;
        for line in &self.lines {
            let is_known = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
            let points = line.points.iter().filter(is_known).copied();
            let colour = colour(line.style);
            if line.is_dashed {
                let stroke = colour.stroke_width(1);
                chart.draw_series(DashedLineSeries::new(points.clone(), 5, 4, stroke))?;
            } else if line.is_joined {
                chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            }
            if line.has_marks {
                let area = chart.plotting_area();
                points.clone().try_for_each(|at| mark(area, at, line.style, line.is_dashed))?;
            }
        }
        Ok(())
    }
}

/// Draws a circle, a square, a triangle or a diamond, filled or as an outline.
fn mark<Coordinates: CoordTranslate>(
    area: &DrawingArea<SVGBackend<'_>, Coordinates>,
    at: Coordinates::From,
    style: usize,
    is_hollow: bool,
) -> Result<()>
where
    Coordinates::From: Clone + 'static,
{
    let colour = colour(style);
    let paint = if is_hollow { colour.stroke_width(1) } else { colour.filled() };
    match style % COLOURS.len() {
        0 => area.draw(&Circle::new(at, 4, paint))?,
        1 => area.draw(&(EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], paint)))?,
        2 if is_hollow => {
            let outline = PathElement::new([(0, -5), (5, 4), (-5, 4), (0, -5)], paint);
            area.draw(&(EmptyElement::at(at) + outline))?;
        }
        2 => area.draw(&TriangleMarker::new(at, 5, paint))?,
        _ => {
            let diamond = Polygon::new([(0, -5), (5, 0), (0, 5), (-5, 0)], paint);
            area.draw(&(EmptyElement::at(at) + diamond))?;
        }
    }
    Ok(())
}

fn colour(style: usize) -> RGBColor {
    COLOURS.get(style % COLOURS.len()).copied().unwrap_or(BLACK)
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
            is_joined: true,
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
        let svg = figure.render().unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("NaN"), "{svg}");
        for text in ["p99", "nagi", "saving", "without", "GB", "10 µs", "1 ms", "\n4\n"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let lines_of = |colour: &str| {
            let is_line = |tag: &&str| tag.starts_with("polyline") && tag.contains(colour);
            svg.split('<').filter(is_line).count()
        };
        assert_eq!(lines_of("#0072B2"), 2, "the line and its key: {svg}");
        assert!(lines_of("#009E73") > 2, "dashes: {svg}");
    }

    #[test]
    fn a_dot_plot_has_a_row_for_each_category() {
        let names = ["above", "a much longer name of a category", "below"];
        let line = |style| Line {
            style,
            is_joined: false,
            is_dashed: false,
            has_marks: true,
            points: vec![(2e3, 0.0), (5e6, -1.0), (30.0, -2.0)],
        };
        let figure = Figure {
            title: "title".to_owned(),
            subtitle: String::new(),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::log_time("", [30.0, 5e6].into_iter()),
                y: Axis::categories(&names),
                lines: (0..4).map(line).collect(),
            }],
            names: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            dashes: None,
        };
        let svg = figure.render().unwrap();
        let row_of = |name: &str| {
            let (before, _) = svg.split_once(&format!("\n{name}\n")).unwrap();
            let tag = before.rsplit_once(" y=\"").unwrap().1;
            tag.split('"').next().unwrap().parse::<u32>().unwrap()
        };
        let [above, between, below] = names.map(row_of);
        assert!(above < between && between < below, "{above} {between} {below}");
        assert_eq!(svg.matches("<polygon").count(), 8, "triangles and diamonds, and their keys");
    }
}
