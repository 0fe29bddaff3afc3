//! Line charts as SVG, drawn by plotters, for the page of a report.

use std::error::Error;

use plotters::prelude::{
    BLACK, ChartBuilder, IntoDrawingArea, LineSeries, RGBColor, Rectangle, SVGBackend, TRANSPARENT,
    WHITE,
};
use plotters::style::{Color, TextStyle};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 320;

/// Three colours of Okabe and Ito's palette, which readers with any colour vision can distinguish.
pub(crate) const COLOURS: [(u8, u8, u8); 3] = [(0, 114, 178), (213, 94, 0), (0, 158, 115)];
const GREY: RGBColor = RGBColor(68, 68, 68);

/// Formats the labels along an axis. An empty text means no label.
type Label = Box<dyn Fn(f64) -> String>;

/// A pair of axes with lines.
pub(crate) struct Chart {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// The name and the points of each line, in the order of x.
    pub(crate) lines: Vec<(&'static str, Vec<(f64, f64)>)>,
    /// A shaded range of x.
    pub(crate) band: Option<(f64, f64)>,
}

/// One axis.
pub(crate) struct Axis {
    name: &'static str,
    from: f64,
    to: f64,
    label: Label,
}

impl Axis {
    /// Creates a linear axis from 0 to beyond `most`.
    pub(crate) fn linear(name: &'static str, most: f64) -> Self {
        let label = |at: f64| {
            let text = format!("{at:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        Axis { name, from: 0.0, to: most.max(1e-3) * 1.02, label: Box::new(label) }
    }

    /// Creates a logarithmic axis with powers of ten around the values. The values are given as
    /// logarithms; `label` is called for integers.
    pub(crate) fn log(
        name: &'static str,
        logarithms: impl Iterator<Item = f64>,
        label: impl Fn(f64) -> String + 'static,
    ) -> Self {
        let (least, most) = logarithms
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)));
        let from = if least.is_finite() { least.floor() } else { 0.0 };
        let to = if most.is_finite() { most.ceil().max(from + 1.0) } else { from + 1.0 };
        let label = move |at: f64| {
            if (at - at.round()).abs() < 1e-6 { label(at.round()) } else { String::new() }
        };
        Axis { name, from, to, label: Box::new(label) }
    }

    /// Creates an axis with one position for each name.
    pub(crate) fn names(name: &'static str, names: Vec<String>) -> Self {
        let to = names.len().saturating_sub(1).max(1) as f64;
        let label = move |at: f64| {
            let known = (at - at.round()).abs() < 1e-6 && at >= 0.0;
            let found = if known { names.get(at.round() as usize) } else { None };
            found.cloned().unwrap_or_default()
        };
        Axis { name, from: 0.0, to, label: Box::new(label) }
    }

    /// Returns a suitable number of labels: not too many, and one for each integer of a short
    /// range.
    fn labels(&self) -> usize {
        ((self.to - self.from) as usize + 1).clamp(6, 12)
    }
}

impl Chart {
    /// Renders the chart as SVG for an HTML page.
    ///
    /// # Errors
    /// Never in practice, because the chart is drawn into memory.
    pub(crate) fn render(&self) -> Result<String, Box<dyn Error + Send + Sync>> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let (x, y) = (&self.x, &self.y);
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(x.from..x.to, y.from..y.to)?;
        let (x_label, y_label) = (|at: &f64| (x.label)(*at), |at: &f64| (y.label)(*at));
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(x.name)
            .y_desc(y.name)
            .x_labels(x.labels())
            .y_labels(y.labels())
            .x_label_formatter(&x_label)
            .y_label_formatter(&y_label)
            .label_style(TextStyle::from(("sans-serif", 14)).color(&GREY))
            .draw()?;
        if let Some((from, to)) = self.band {
            let corners = [(from.max(x.from), y.from), (to.min(x.to), y.to)];
            chart.draw_series([Rectangle::new(corners, BLACK.mix(0.12).filled())])?;
        }
        for ((_, points), (red, green, blue)) in self.lines.iter().zip(COLOURS) {
            let within = |(at, value): &&(f64, f64)| at.is_finite() && value.is_finite();
            let points = points.iter().filter(within).copied();
            let colour = RGBColor(red, green, blue);
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
        drop(chart);
        root.present()?;
        drop(root);
        // Within HTML, an SVG needs no namespace.
        Ok(svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_whole_with_its_lines_and_labels() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 2.9)];
        let chart = Chart {
            x: Axis::linear("seconds", 2.0),
            y: Axis::log("latency", [1.0, 2.9].into_iter(), |at| format!("power {at}")),
            lines: vec![("p50", points.clone()), ("p99", points)],
            band: Some((0.5, 9.0)),
        };
        let svg = chart.render().unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in ["seconds", "latency", "power 1", "power 3", "#0072B2", "#D55E00"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("http") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn axes_hold_all_values() {
        let axis = Axis::log("", [1.3, 4.2].into_iter(), |at| at.to_string());
        assert_eq!((axis.from, axis.to), (1.0, 5.0));
        assert_eq!([1.0, 1.5, 5.0].map(|at| (axis.label)(at)), ["1", "", "5"]);
        let empty = Axis::log("", [f64::NEG_INFINITY].into_iter(), |at| at.to_string());
        assert_eq!((empty.from, empty.to), (0.0, 1.0));
        let names = Axis::names("", vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!([0.0, 0.5, 1.0, 2.0].map(|at| (names.label)(at)), ["a", "", "b", ""]);
    }
}
