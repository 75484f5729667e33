//! Plots as SVG, drawn here: lines with markers and error bars, published values hollow and dashed beside
//! them.
//! No plotting crate. With `plotters` 0.3 (its SVG backend alone) the same three charts were drawn and looked
//! at: colours are fixed attributes, so that nothing suits a dark ground; positions are whole pixels; a
//! logarithmic axis is marked 10, 20 .. 90, 100 and not at all below ten; the legend lies on the lines, so
//! that one beside them is drawn by hand as here; and a file is up to three times as large.
//!
//! Colours are those of Okabe and Ito, which people with colour-blindness can tell apart; each line has a
//! marker of its own as well. Text and axes are dark or light as the reader's ground is light or dark.

use std::fmt::Write;

use crate::experiment::rounded;

/// A line of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Position, value, half of the error bar.
    pub points: Vec<(f64, f64, f64)>,
    /// Published: dashed, hollow, without a colour of its own (that of the line before it).
    pub is_published: bool,
    /// Many points: no markers.
    pub is_dense: bool,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x_label: String,
    /// Above the vertical axis.
    pub y_label: String,
    /// Logarithmic horizontal axis; what is not positive is left out.
    pub is_x_log: bool,
    /// Logarithmic vertical axis.
    pub is_y_log: bool,
    /// The horizontal axis has names that are in no order: nothing to join by lines.
    pub is_x_unordered: bool,
    /// Names at these positions instead of numbers.
    pub x_names: Vec<(f64, String)>,
    /// The lines.
    pub lines: Vec<Line>,
}

const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 50.0;
/// Room for the legend.
const RIGHT: f64 = 190.0;
/// Of that, for a name: so much for each of its characters, and so much more if it is long.
const NAME_ROOM: f64 = 144.0;
const NAME_CHARACTER: f64 = 7.0;
const NAME_MORE_MAX: f64 = 400.0;

/// One axis: from values to positions on the paper.
struct Axis {
    is_log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(
        values: impl Iterator<Item = f64>,
        is_log: bool,
        from: f64,
        to: f64,
        starts_at_zero: bool,
    ) -> Self {
        let is_possible = |v: &f64| v.is_finite() && (!is_log || *v > 0.0);
        let (mut low, mut high) =
            values.filter(is_possible).fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if is_log {
            (low, high) = (low * 0.8, high * 1.25);
        } else {
            let room = if high > low { (high - low) * 0.05 } else { high.abs().max(1.0) * 0.1 };
            low = if starts_at_zero && low >= 0.0 { 0.0 } else { low - room };
            high += room;
        }
        Self { is_log, low, high, from, to }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let share = if self.is_log {
            (value > 0.0).then(|| (value / self.low).ln() / (self.high / self.low).ln())?
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(self.from + share.clamp(-0.02, 1.02) * (self.to - self.from))
    }

    /// Round values to write at the axis.
    fn ticks(&self) -> Vec<f64> {
        let decades = if self.is_log { (self.high / self.low).log10() } else { 0.0 };
        if self.is_log && decades >= 1.2 {
            let steps: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let exponents = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let all =
                exponents.flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)));
            return all.filter(|v| (self.low..=self.high).contains(v)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|f| f * magnitude)
            .find(|&s| s >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

/// A number as short as it can be read.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        s if s == 0.0 || s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        _ => 4,
    };
    rounded(value, places)
}

/// Text that may stand in XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Chart {
    /// The drawing.
    pub fn to_svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::new(all().map(|p| p.0), self.is_x_log, LEFT, WIDTH - RIGHT, false);
        // The values make the axis; error bars may add a fifth, and are cut off there.
        let top = all().map(|p| p.1).fold(0.0, f64::max) * 1.2;
        let y_values =
            all().flat_map(|p| if self.is_y_log { [p.1; 2] } else { [p.1, (p.1 + p.2).min(top.max(p.1))] });
        let y = Axis::new(y_values, self.is_y_log, HEIGHT - BOTTOM, TOP, true);
        let (mut svg, width) = (String::new(), self.width());
        let _ = write!(
            svg,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {HEIGHT}' width='{width}' height='{HEIGHT}' \
             font-family='system-ui, sans-serif' font-size='12' fill='currentColor'>\
             <style>svg{{color:#1f2328}}@media(prefers-color-scheme:dark){{svg{{color:#e6edf3}}}}\
             .grid{{stroke:currentColor;stroke-opacity:.13}} .axis{{stroke:currentColor;stroke-opacity:.5}}</style>\
             <text x='{LEFT}' y='18' font-size='14' font-weight='600'>{}</text>\
             <text x='{LEFT}' y='38' fill-opacity='.7'>{}</text>",
            escape(&self.title),
            escape(&self.y_label)
        );
        self.draw_axes(&mut svg, &x, &y);
        let mut colour = 0;
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 && !line.is_published {
                colour += 1;
            }
            draw_line(&mut svg, line, &x, &y, colour, !self.is_x_unordered);
            draw_legend(&mut svg, line, index, colour);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Wide enough for the longest name beside it.
    fn width(&self) -> f64 {
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0) as f64;
        WIDTH + (longest * NAME_CHARACTER - NAME_ROOM).clamp(0.0, NAME_MORE_MAX).ceil()
    }

    fn draw_axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in y.ticks() {
            let Some(at) = y.place(value) else { continue };
            let _ = write!(
                svg,
                "<path class='grid' d='M{LEFT} {at:.1}H{right}'/><text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
                LEFT - 8.0,
                at + 4.0,
                short(value)
            );
        }
        let named = || self.x_names.iter().map(|(value, name)| (*value, name.clone()));
        let ticks: Vec<(f64, String)> = if self.x_names.is_empty() {
            x.ticks().into_iter().map(|v| (v, short(v))).collect()
        } else {
            named().collect()
        };
        for (value, name) in ticks {
            let Some(at) = x.place(value) else { continue };
            let _ = write!(
                svg,
                "<path class='axis' d='M{at:.1} {bottom}v5'/><text x='{at:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
                bottom + 19.0,
                escape(&name)
            );
        }
        let _ = write!(
            svg,
            "<path class='axis' d='M{LEFT} {bottom}H{right}'/><text x='{:.1}' y='{:.1}' text-anchor='middle' fill-opacity='.7'>{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escape(&self.x_label)
        );
    }
}

fn draw_line(svg: &mut String, line: &Line, x: &Axis, y: &Axis, colour: usize, is_joined: bool) {
    let ink = COLOURS[colour % COLOURS.len()];
    let places: Vec<(f64, f64)> =
        line.points.iter().filter_map(|p| Some((x.place(p.0)?, y.place(p.1)?))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    if path.is_empty() {
        return;
    }
    if is_joined {
        let dash = if line.is_published { " stroke-dasharray='5 4' stroke-opacity='.75'" } else { "" };
        let width = if line.is_dense { 1.5 } else { 2.0 };
        let _ = write!(
            svg,
            "<path d='M{}' fill='none' stroke='{ink}' stroke-width='{width}' stroke-linejoin='round'{dash}/>",
            path.join("L")
        );
    }
    for point in line.points.iter().filter(|p| p.2 > 0.0) {
        let Some(at) = x.place(point.0) else { continue };
        let Some(high) = y.place(point.1 + point.2) else { continue };
        // On a logarithmic axis zero is beyond its end.
        let low = y.place(point.1 - point.2).unwrap_or(y.from);
        let _ = write!(svg, "<path d='M{at:.1} {low:.1}V{high:.1}' stroke='{ink}' stroke-opacity='.6'/>");
    }
    if !line.is_dense {
        places.iter().for_each(|&(x, y)| draw_marker(svg, x, y, colour, line.is_published));
    }
}

fn draw_marker(svg: &mut String, x: f64, y: f64, colour: usize, is_hollow: bool) {
    let ink = COLOURS[colour % COLOURS.len()];
    let paint = if is_hollow {
        format!("fill='none' stroke='{ink}' stroke-width='1.5'")
    } else {
        format!("fill='{ink}'")
    };
    let _ = match colour % 4 {
        0 => write!(svg, "<circle cx='{x:.1}' cy='{y:.1}' r='4' {paint}/>"),
        1 => write!(svg, "<rect x='{:.1}' y='{:.1}' width='7.4' height='7.4' {paint}/>", x - 3.7, y - 3.7),
        2 => write!(svg, "<path d='M{:.1} {:.1}l4.6 8h-9.2z' {paint}/>", x, y - 5.0),
        _ => write!(svg, "<path d='M{:.1} {:.1}l5 5l-5 5l-5 -5z' {paint}/>", x, y - 5.0),
    };
}

fn draw_legend(svg: &mut String, line: &Line, index: usize, colour: usize) {
    let ink = COLOURS[colour % COLOURS.len()];
    let (x, y) = (WIDTH - RIGHT + 18.0, TOP + 8.0 + 19.0 * index as f64);
    let dash = if line.is_published { " stroke-dasharray='5 4'" } else { "" };
    let _ = write!(svg, "<path d='M{x} {y}h22' stroke='{ink}' stroke-width='2'{dash}/>");
    if !line.is_dense {
        draw_marker(svg, x + 11.0, y, colour, line.is_published);
    }
    let _ = write!(svg, "<text x='{}' y='{}'>{}</text>", x + 29.0, y + 4.0, escape(&line.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_y_log: bool) -> Chart {
        let line = |name: &str, is_published| Line {
            name: name.into(),
            points: vec![(0.0, 96.0, 1.0), (5.0, 2.1, 0.1), (20.0, 0.0, 0.0)],
            is_published,
            is_dense: false,
        };
        Chart {
            title: "a < b".into(),
            is_y_log,
            lines: vec![line("here", false), line("there", true)],
            ..Chart::default()
        }
    }

    #[test]
    fn everything_stays_on_the_paper() {
        for is_y_log in [false, true] {
            let svg = chart(is_y_log).to_svg();
            assert!(svg.contains("a &lt; b") && svg.contains("there"));
            assert_eq!(svg.matches("<circle").count(), if is_y_log { 2 * 2 + 2 } else { 2 * 3 + 2 });
            let numbers = svg
                .split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
                .filter_map(|n| n.parse::<f64>().ok());
            assert!(
                numbers.into_iter().filter(|n| *n < 2000.0).all(|n| (-10.0..=680.0).contains(&n)),
                "{svg}"
            );
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        let axis = Axis::new([0.0, 96.0].into_iter(), false, 0.0, 1.0, true);
        assert_eq!(axis.ticks(), [0.0, 25.0, 50.0, 75.0, 100.0]);
        let axis = Axis::new([0.05, 950.0].into_iter(), true, 0.0, 1.0, true);
        assert_eq!(
            axis.ticks().iter().map(|v| short(*v)).collect::<Vec<_>>(),
            ["0.1", "1", "10", "100", "1000"]
        );
        let nothing = Axis::new(std::iter::empty(), true, 0.0, 1.0, true);
        assert!(nothing.place(5.0).is_some());
        assert_eq!([short(0.0), short(1234.5), short(2.10), short(0.0312)], ["0", "1234", "2.1", "0.0312"]);
    }
}
