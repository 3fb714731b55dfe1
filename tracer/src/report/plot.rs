//! Pictures of a sweep as SVG: throughput over the steps, all curves in one, and below it each curve's
//! ledger as a stack.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::model::{Curve, Step, Sweep};

const WIDTH: u32 = 900;
const HEIGHT: u32 = 380;
const FONT: (&str, u32) = ("sans-serif", 15);
/// The stack's layers, from below: a name, a colour and the beginnings of its states.
const LAYERS: [(&str, RGBColor, &[&str]); 7] = [
    ("cpu", RGBColor(76, 120, 168), &["cpu"]),
    ("spin", RGBColor(228, 87, 86), &["spin", "irq"]),
    ("lock sleep", RGBColor(178, 34, 52), &["lock_sleep"]),
    ("run queue", RGBColor(245, 133, 24), &["runq"]),
    ("io", RGBColor(84, 162, 75), &["io"]),
    ("other wait", RGBColor(157, 117, 93), &["wait", "idle_in_transaction"]),
    ("client, transport", RGBColor(186, 176, 172), &["client_and_transport", "not_split"]),
];

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the sweep: {0}")]
pub struct PlotError(String);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The picture.
pub fn sweep(sweep: &Sweep) -> Result<String, PlotError> {
    let mut out = String::new();
    draw(sweep, &mut out).map_err(|error| PlotError(error.to_string()))?;
    Ok(out)
}

fn draw(sweep: &Sweep, out: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let ledgers: Vec<&Curve> = sweep.curves.iter().filter(|curve| has_ledger(curve)).collect();
    let panels = 1 + ledgers.len();
    let root = SVGBackend::with_string(out, (WIDTH, HEIGHT * u32::try_from(panels)?));
    let root = root.into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((panels, 1));
    throughput(sweep, &areas[0])?;
    for (curve, area) in ledgers.into_iter().zip(&areas[1..]) {
        stack(sweep, curve, area)?;
    }
    root.present()?;
    Ok(())
}

fn has_ledger(curve: &Curve) -> bool {
    curve.steps.iter().any(|step| !step.states_ns.is_empty())
}

/// Steps stand side by side, in their order: their values need not be numbers.
fn throughput(sweep: &Sweep, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
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

fn stack(sweep: &Sweep, curve: &Curve, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
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
    for (title, color, names) in LAYERS {
        let mut bars = Vec::new();
        for (at, step) in curve.steps.iter().enumerate() {
            let height = layer(step, names) / 1e3;
            let (left, right) = (at as f64 - 0.35, at as f64 + 0.35);
            bars.push(Rectangle::new(
                [(left, below[at]), (right, below[at] + height)],
                color.filled(),
            ));
            below[at] += height;
        }
        chart
            .draw_series(bars)?
            .label(title)
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

/// Time in the states whose names, or their parts before a point, are among `names`. What measures
/// differ by can be negative, which a stack cannot show.
fn layer(step: &Step, names: &[&str]) -> f64 {
    let is_one = |state: &str| names.contains(&state.split('.').next().unwrap_or(state));
    step.states_ns.iter().filter(|(state, _)| is_one(state)).map(|(_, ns)| ns.max(0.0)).sum()
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
        let picture =
            sweep(&Sweep { along: "client".to_owned(), curves: vec![curve], ..Sweep::default() })
                .unwrap();
        for word in ["<svg", "Transactions per second", "many", "spin", "lock sleep", "#E45756"] {
            assert!(picture.contains(word), "{word}");
        }
    }

    #[test]
    fn a_sweep_without_a_single_step_is_no_panic() {
        assert!(sweep(&Sweep::default()).unwrap().contains("<svg"));
        let failed = Step { failure: Some("x".to_owned()), ..Step::default() };
        let curve = Curve { steps: vec![failed], ..Curve::default() };
        assert!(sweep(&Sweep { curves: vec![curve], ..Sweep::default() }).is_ok());
    }
}
