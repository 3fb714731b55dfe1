//! Pictures of a sweep, as SVG or PNG: throughput over the steps, all curves in one, and below it each curve's
//! ledger as a stack.

use std::error::Error;
use std::sync::LazyLock;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::analyse::sweep::{STATE_GROUPS, StateGroup};
use crate::model::{Curve, Step, Sweep};

const WIDTH: u32 = 900;
const HEIGHT: u32 = 380;
const FONT: (&str, u32) = ("sans-serif", 15);
/// Colours of the stack's layers, from below, in the order of [`STATE_GROUPS`].
const COLORS: [RGBColor; STATE_GROUPS.len()] = [
    RGBColor(76, 120, 168),
    RGBColor(228, 87, 86),
    RGBColor(178, 34, 52),
    RGBColor(245, 133, 24),
    RGBColor(84, 162, 75),
    RGBColor(157, 117, 93),
    RGBColor(186, 176, 172),
];

/// The form of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotFormat {
    /// Scalable, text as text.
    Svg,
    /// Pixels.
    Png,
}

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the sweep: {0}")]
pub struct PlotError(String);

/// The picture, as the bytes of its file.
pub fn sweep(sweep: &Sweep, format: PlotFormat) -> Result<Vec<u8>, PlotError> {
    if !*HAS_FONT {
        return Err(PlotError("the font inside lockscope cannot be read".to_owned()));
    }
    let drawn = match format {
        PlotFormat::Svg => svg(sweep),
        PlotFormat::Png => png(sweep),
    };
    drawn.map_err(|error| PlotError(error.to_string()))
}

/// The machine may have none: one is inside the binary.
static HAS_FONT: LazyLock<bool> = LazyLock::new(|| {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    plotters::style::register_font(FONT.0, FontStyle::Normal, font).is_ok()
});

fn svg(sweep: &Sweep) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = String::new();
    draw(sweep, &SVGBackend::with_string(&mut out, size(sweep)?).into_drawing_area())?;
    Ok(out.into_bytes())
}

fn png(sweep: &Sweep) -> Result<Vec<u8>, Box<dyn Error>> {
    let (width, height) = size(sweep)?;
    let mut pixels = vec![0; usize::try_from(3 * width * height)?];
    let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
    draw(sweep, &backend.into_drawing_area())?;
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(out)
}

/// One panel, and one more for each curve with a ledger.
fn size(sweep: &Sweep) -> Result<(u32, u32), Box<dyn Error>> {
    Ok((WIDTH, HEIGHT * u32::try_from(1 + with_ledger(sweep).count())?))
}

fn with_ledger(sweep: &Sweep) -> impl Iterator<Item = &Curve> {
    sweep.curves.iter().filter(|curve| has_ledger(curve))
}

fn draw<B: DrawingBackend>(
    sweep: &Sweep,
    root: &DrawingArea<B, Shift>,
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    let areas = root.split_evenly((1 + with_ledger(sweep).count(), 1));
    throughput(sweep, &areas[0])?;
    for (curve, area) in with_ledger(sweep).zip(&areas[1..]) {
        stack(sweep, curve, area)?;
    }
    root.present()?;
    Ok(())
}

fn has_ledger(curve: &Curve) -> bool {
    curve.steps.iter().any(|step| !step.states_ns.is_empty())
}

/// Steps stand side by side, in their order: their values need not be numbers.
fn throughput<B: DrawingBackend>(
    sweep: &Sweep,
    area: &DrawingArea<B, Shift>,
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    let highest = |step: &Step| step.tps.high.unwrap_or(step.tps.value).max(step.tps.value);
    let top =
        sweep.curves.iter().flat_map(|curve| curve.steps.iter().map(highest)).fold(1.0, f64::max);
    let longest = sweep.curves.iter().max_by_key(|curve| curve.steps.len());
    let Some(longest) = longest else { return Ok(()) };
    let mut chart = ChartBuilder::on(area)
        .caption("Transactions per second", FONT)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(80)
        .build_cartesian_2d(-0.5..longest.steps.len() as f64 - 0.5, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(longest.steps.len())
        .x_label_formatter(&|at| label(longest, *at))
        .x_desc(&sweep.along)
        .draw()?;
    for (index, curve) in sweep.curves.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let measured = || curve.steps.iter().enumerate().filter(|(_, step)| step.failure.is_none());
        let line = measured().map(|(at, step)| (at as f64, step.tps.value));
        let series =
            chart.draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))?;
        if !curve.values.is_empty() {
            series.label(curve.name()).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
            });
        }
        chart.draw_series(measured().filter_map(|(at, step)| {
            let (low, high) = step.tps.low.zip(step.tps.high)?;
            let value = step.tps.value.clamp(low, high);
            Some(ErrorBar::new_vertical(at as f64, low, value, high, color.filled(), 8))
        }))?;
    }
    if sweep.curves.len() > 1 {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .position(SeriesLabelPosition::LowerRight)
            .draw()?;
    }
    Ok(())
}

fn stack<B: DrawingBackend>(
    sweep: &Sweep,
    curve: &Curve,
    area: &DrawingArea<B, Shift>,
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    let whole = |step: &Step| step.states_ns.values().filter(|ns| **ns > 0.0).sum::<f64>() / 1e3;
    let top = curve.steps.iter().map(whole).fold(1e-3, f64::max);
    let of = if curve.values.is_empty() { String::new() } else { format!(", {}", curve.name()) };
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Microseconds per transaction by state{of}"), FONT)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(80)
        .right_y_label_area_size(150)
        .build_cartesian_2d(-0.5..curve.steps.len() as f64 - 0.5, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(curve.steps.len())
        .x_label_formatter(&|at| label(curve, *at))
        .x_desc(&sweep.along)
        .draw()?;
    let mut below = vec![0.0; curve.steps.len()];
    for (group, color) in STATE_GROUPS.into_iter().zip(COLORS) {
        let mut bars = Vec::new();
        for (at, step) in curve.steps.iter().enumerate() {
            let height = layer(step, group) / 1e3;
            let (left, right) = (at as f64 - 0.35, at as f64 + 0.35);
            bars.push(Rectangle::new(
                [(left, below[at]), (right, below[at] + height)],
                color.filled(),
            ));
            below[at] += height;
        }
        chart
            .draw_series(bars)?
            .label(group.title)
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 12, y + 6)], color.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    Ok(())
}

/// The value at a place on the axis; nothing between two steps.
fn label(curve: &Curve, at: f64) -> String {
    let index = at.round();
    if (at - index).abs() > 0.01 || index < 0.0 {
        return String::new();
    }
    curve.steps.get(index as usize).map(|step| step.value.clone()).unwrap_or_default()
}

/// What measures differ by can be negative, which a stack cannot show.
fn layer(step: &Step, group: StateGroup) -> f64 {
    group.times_ns(step).map(|ns| ns.max(0.0)).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Estimate;

    #[test]
    fn every_step_and_layer_is_in_the_picture() {
        let step = |value: &str, tps: f64| Step {
            value: value.to_owned(),
            tps: Estimate { value: tps, low: Some(tps * 0.9), high: Some(tps * 1.1) },
            states_ns: BTreeMap::from([("cpu".to_owned(), 1e4), ("spin.osq".to_owned(), 5e4)]),
            ..Step::default()
        };
        let curve =
            Curve { steps: vec![step("1", 100.0), step("many", 190.0)], ..Curve::default() };
        let swept = Sweep { along: "client".to_owned(), curves: vec![curve], ..Sweep::default() };
        let picture = String::from_utf8(sweep(&swept, PlotFormat::Svg).unwrap()).unwrap();
        for word in ["<svg", "Transactions per second", "many", "spin", "lock sleep", "#E45756"] {
            assert!(picture.contains(word), "{word}");
        }
    }

    /// The pixels have the layers' colours, and text.
    #[test]
    fn the_same_picture_in_pixels() {
        let step = |tps: f64, osq_ns: f64| Step {
            tps: Estimate { value: tps, low: None, high: None },
            states_ns: BTreeMap::from([("spin.osq".to_owned(), osq_ns)]),
            ..Step::default()
        };
        let curve = Curve { steps: vec![step(100.0, 1e4), step(190.0, 5e4)], ..Curve::default() };
        let swept = Sweep { curves: vec![curve], ..Sweep::default() };
        let picture = sweep(&swept, PlotFormat::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(picture)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (WIDTH, 2 * HEIGHT));
        let count = |is_one: fn(&[u8]) -> bool| pixels.chunks(3).filter(|rgb| is_one(rgb)).count();
        assert!(count(|rgb| *rgb == [228, 87, 86]) > 10_000, "the spin");
        // The caption is above everything else.
        let caption = &pixels[..usize::try_from(3 * WIDTH * 30).unwrap()];
        assert!(caption.chunks(3).filter(|rgb| rgb[0] < 100).count() > 100, "the caption");
    }

    #[test]
    fn a_sweep_without_a_single_step_is_no_panic() {
        let failed = Step { failure: Some("x".to_owned()), ..Step::default() };
        let curve = Curve { steps: vec![failed], ..Curve::default() };
        for format in [PlotFormat::Svg, PlotFormat::Png] {
            assert!(sweep(&Sweep::default(), format).is_ok());
            let curves = vec![curve.clone()];
            assert!(sweep(&Sweep { curves, ..Sweep::default() }, format).is_ok());
        }
    }
}
