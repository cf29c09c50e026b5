//! The results of a study: as tables, as JSON, as CSV.

use std::fmt::Write as _;
use std::io;

use anyhow::Result;
use evenkeel_formats::quoted;
use evenkeel_sim::measure::{self, MEASURES, Measure, Unit};
use evenkeel_sim::outcome::{Estimate, Timeline};
use evenkeel_sim::study::{Point, Run, Series, Servers, Study};
use serde_json::{Map, Value, json};

use crate::text::{bar, count, counted, mean, size, span, span_about, table};

/// The results of a study.
pub(super) struct Report<'a> {
    pub(super) title: String,
    pub(super) points: &'a [Point],
    pub(super) series: Vec<Series>,
    /// The swept keys.
    pub(super) swept: Vec<&'a str>,
    /// The number of runs done, and of all runs.
    n_done: usize,
    n_jobs: usize,
}

impl<'a> Report<'a> {
    /// The runs of a study by policy, so that the effect of a sweep shows from row to row. Incomplete ones come last.
    pub(super) fn new(
        study: &'a Study,
        mut series: Vec<Series>,
        (n_done, n_jobs): (usize, usize),
        file: &str,
    ) -> Self {
        let mut names: Vec<&str> = Vec::new();
        series.iter().map(|series| series.policy.name).for_each(|name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
        series.sort_by_key(|series| {
            (series.n_failed() > 0.0, names.iter().position(|name| *name == series.policy.name))
        });
        let title = study.points.first().and_then(|point| point.scenario.title.clone());
        let swept = study
            .points
            .first()
            .map_or_else(Vec::new, |point| point.sets.iter().map(|set| set.key.as_str()).collect());
        Self {
            title: title.unwrap_or_else(|| file.to_owned()),
            points: &study.points,
            series,
            swept,
            n_done,
            n_jobs,
        }
    }

    /// The values of the swept keys.
    pub(super) fn values(&self, series: &Series) -> impl Iterator<Item = &'a str> + use<'a> {
        self.points[series.point].sets.iter().map(|set| set.value.as_str())
    }

    /// A sentence that says what is simulated.
    pub(super) fn headline(&self) -> String {
        let Some(Point { scenario, .. }) = self.points.first() else { return String::new() };
        let mut text = format!(
            "{} and {}, {}",
            counted(scenario.servers().len() as u64, "server"),
            counted(scenario.n_clients().into(), "client"),
            counted(scenario.repetitions.into(), "repetition")
        );
        if self.points.len() > 1 {
            let _ = write!(
                text,
                " at each of {} ({})",
                counted(self.points.len() as u64, "point"),
                self.swept.join(", ")
            );
        }
        if self.n_done < self.n_jobs {
            let _ = write!(
                text,
                "; interrupted after {} of {} runs",
                count(self.n_done as u64),
                count(self.n_jobs as u64)
            );
        }
        text + "."
    }

    /// The measures that were requested, or those that say something.
    pub(super) fn measures(&self) -> Vec<&'static Measure> {
        let asked = self.points.first().and_then(|point| point.scenario.measures.clone());
        let says = |measure: &&Measure| {
            self.series.iter().any(|series| series.estimate(measure).is_some_and(|about| about.mean != 0.0))
        };
        let mut measures = asked.unwrap_or_else(|| MEASURES.iter().filter(says).collect());
        // Failures come first, whatever was requested.
        if let Some(failed) = measure::find("failed").filter(says) {
            measures.retain(|measure| measure.name != failed.name);
            measures.insert(0, failed);
        }
        measures
    }

    /// A table of some measures: a header, and one row per series.
    pub(super) fn rows(&self, measures: &[&Measure]) -> Vec<Vec<String>> {
        let header = ["policy"].into_iter().chain(self.swept.iter().map(|key| last(key))).map(str::to_owned);
        let mut rows: Vec<Vec<String>> =
            vec![header.chain(measures.iter().map(|measure| title(measure).to_owned())).collect()];
        for series in &self.series {
            let values = [series.policy.name].into_iter().chain(self.values(series)).map(str::to_owned);
            rows.push(
                values
                    .chain(measures.iter().map(|measure| cell(measure, series.estimate(measure))))
                    .collect(),
            );
        }
        rows
    }

    pub(super) fn for_people(&self) -> String {
        let mut text = format!("{}. {}\n", self.title.trim_end_matches('.'), self.headline());
        if self.series.iter().any(|series| series.n_failed() > 0.0) {
            let _ = writeln!(text, "{INCOMPLETE}");
        }
        let measures = self.measures();
        let is_of_time = |measure: &&&Measure| {
            matches!(measure.unit, Unit::Time | Unit::Times | Unit::Share) || measure.name == "failed"
        };
        let (of_time, of_traffic): (Vec<&Measure>, Vec<&Measure>) =
            measures.iter().partition(|measure| is_of_time(measure));
        // The bound is the same for all policies; the ratio shows it.
        let of_time: Vec<&Measure> =
            of_time.into_iter().filter(|measure| measure.name != "bound" || self.is_asked(measure)).collect();
        for measures in [of_time, of_traffic] {
            if !measures.is_empty() {
                let _ = write!(text, "\n{}", table(&self.rows(&measures)));
            }
        }
        if self.points.len() == 1 {
            text.push_str(&self.chart());
        }
        text
    }

    fn is_asked(&self, measure: &Measure) -> bool {
        let asked = self.points.first().and_then(|point| point.scenario.measures.as_ref());
        asked.is_some_and(|asked| asked.iter().any(|other| other.name == measure.name))
    }

    /// Makespans as bars.
    fn chart(&self) -> String {
        let Some(makespan) = measure::find("makespan") else { return String::new() };
        let bars: Vec<(&Series, f64)> =
            self.series.iter().filter_map(|series| Some((series, series.estimate(makespan)?.mean))).collect();
        let complete = bars.iter().filter(|(series, _)| series.n_failed() == 0.0);
        let longest = complete.map(|(_, mean)| *mean).fold(0.0, f64::max);
        let width = bars.iter().map(|(series, _)| series.policy.name.len()).max().unwrap_or(0);
        let mut text = String::from("\nMakespan:\n\n");
        for (series, mean) in bars {
            let _ = write!(text, "  {:<width$}  ", series.policy.name);
            if let Some(failures) = failures(series) {
                let _ = writeln!(text, "{failures}");
            } else {
                let bar = bar((mean / longest * 1e6) as u64, 1_000_000, 40);
                let _ = writeln!(text, "{} {}", bar.trim_end(), span(mean));
            }
        }
        text
    }

    /// Everything, as one object.
    pub(super) fn to_json(&self) -> Result<String> {
        let first = self.points.first().map(|point| &point.scenario);
        let object = json!({
            "format": 1,
            "title": self.title,
            "seed": first.map(|scenario| scenario.seed),
            "repetitions": first.map(|scenario| scenario.repetitions),
            "servers": first.map(|scenario| scenario.servers().len()),
            "clients": first.map(evenkeel_sim::scenario::Scenario::n_clients),
            "swept": self.swept,
            "runs": self.n_done,
            "runs_asked": self.n_jobs,
            "results": self.series.iter().map(|series| self.series_json(series)).collect::<Vec<_>>(),
        });
        Ok(serde_json::to_string(&object)? + "\n")
    }

    fn series_json(&self, series: &Series) -> Value {
        let set: Map<String, Value> = self
            .swept
            .iter()
            .zip(self.values(series))
            .map(|(key, value)| ((*key).to_owned(), value.into()))
            .collect();
        let estimates: Map<String, Value> = MEASURES
            .iter()
            .map(|measure| (measure.name.to_owned(), estimate_json(series.estimate(measure))))
            .collect();
        let responses: Vec<Value> = measure::shares()
            .zip(series.responses())
            .map(|(share, seconds)| json!([f64::from(share) / 1e4, rounded(seconds, 1e9)]))
            .collect();
        let runs: Vec<Value> =
            series.runs.iter().map(|(repetition, run)| run_json(*repetition, run)).collect();
        let names = self.points[series.point].scenario.servers();
        json!({
            "set": set,
            "policy": series.policy.name,
            "complete": series.n_failed() == 0.0,
            "measures": estimates,
            "responses": responses,
            "server_loads": series.servers().map(|servers| server_loads(names, servers)),
            "over_time": series.servers().map(|servers| over_time(names.len(), &servers.timeline)),
            "runs": runs,
        })
    }

    /// One row per run.
    pub(super) fn write_csv(&self, file: &mut dyn io::Write) -> io::Result<()> {
        let header: Vec<String> = self
            .swept
            .iter()
            .map(|key| quoted(key))
            .chain(["policy".to_owned(), "repetition".to_owned()])
            .chain(MEASURES.iter().map(|measure| measure.name.to_owned()))
            .collect();
        writeln!(file, "{}", header.join(","))?;
        for series in &self.series {
            for (repetition, run) in &series.runs {
                let mut row: Vec<String> = self.values(series).map(quoted).collect();
                row.push(series.policy.name.to_owned());
                row.push(repetition.to_string());
                row.extend(
                    run.measures
                        .iter()
                        .map(|value| value.map_or_else(String::new, |value| value.to_string())),
                );
                writeln!(file, "{}", row.join(","))?;
            }
        }
        Ok(())
    }
}

/// Printed if some policies have not done everything.
pub(super) const INCOMPLETE: &str = "Where some failed, all other figures are of what was done, and the bound too: they do not compare with those of who did everything.";

/// The number of failures of a series, if any.
pub(super) fn failures(series: &Series) -> Option<String> {
    let n_failed = series.n_failed();
    (n_failed > 0.0).then(|| format!("{} failed", mean_count(n_failed)))
}

/// A mean of counts, with a decimal only if needed.
fn mean_count(n: f64) -> String {
    if n.fract() == 0.0 { count(n as u64) } else { mean(n.max(0.1)) }
}

/// The name of a key within its table.
pub(super) fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The heading of a column.
pub(super) fn title(measure: &Measure) -> &'static str {
    match measure.name {
        "ratio" => "of bound",
        "mean" => "response",
        "utilisation" => "busy",
        name => name,
    }
}

/// A measure formatted for people.
fn cell(measure: &Measure, about: Option<Estimate>) -> String {
    let Some(Estimate { mean, margin }) = about else { return "–".to_owned() };
    match measure.unit {
        Unit::Time if matches!(measure.name, "makespan" | "mean") => span_about(mean, margin),
        Unit::Time => span(mean),
        Unit::Bytes => size(mean),
        Unit::Count if measure.name == "failed" => mean_count(mean),
        Unit::Count => count(mean.round() as u64),
        Unit::Share => format!("{:.1} %", 100.0 * mean),
        Unit::Times => format!("{mean:.3} x"),
    }
}

/// Rounds a value to the digits that are printed, no more than are meaningful.
fn rounded(value: f64, per_one: f64) -> f64 {
    (value * per_one).round() / per_one
}

fn estimate_json(about: Option<Estimate>) -> Value {
    about.map_or(Value::Null, |Estimate { mean, margin }| {
        json!({ "mean": rounded(mean, 1e9), "margin": margin.map(|margin| rounded(margin, 1e9)) })
    })
}

fn run_json(repetition: u32, run: &Run) -> Value {
    let measures =
        MEASURES.iter().zip(&run.measures).map(|(measure, value)| (measure.name.to_owned(), json!(value)));
    let mut object: Map<String, Value> = [("repetition".to_owned(), repetition.into())].into_iter().collect();
    object.extend(measures);
    object.into()
}

/// Each server's bytes and utilisation.
fn server_loads(names: &[String], servers: &Servers) -> Vec<Value> {
    let figures = servers.bytes.iter().zip(&servers.utilisation);
    let of = |(name, (bytes, utilisation)): (&String, (&u64, &f64))| json!({ "server": name, "bytes": bytes, "utilisation": rounded(*utilisation, 1e6) });
    names.iter().zip(figures).map(of).collect()
}

/// The slots taken and the bytes present at each server, bin by bin until the end, in the first run.
fn over_time(n_servers: usize, timeline: &Timeline) -> Value {
    let servers = || 0..n_servers as u32;
    let busy: Vec<Vec<f64>> = servers().map(|server| timeline.busy(server).collect()).collect();
    let n_bins = busy
        .iter()
        .filter_map(|busy| busy.iter().rposition(|&busy| busy > 0.0))
        .max()
        .map_or(0, |last| last + 1);
    let busy: Vec<Vec<f64>> =
        busy.iter().map(|busy| busy[..n_bins].iter().map(|&busy| rounded(busy, 1e4)).collect()).collect();
    let load: Vec<Vec<u64>> = servers()
        .map(|server| timeline.load(server).take(n_bins).map(|load| load.round() as u64).collect())
        .collect();
    json!({ "bin": timeline.bin_ns() as f64 / 1e9, "busy": busy, "load": load })
}
