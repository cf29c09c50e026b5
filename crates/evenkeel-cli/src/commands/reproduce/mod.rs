//! `evenkeel reproduce`: the papers' experiments, repeated, claim by claim.

mod json;
mod live;
mod page;

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use evenkeel_sim::papers::{Claim, Experiment, Figure, Lab, PAPERS, Paper, Section, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde::Serialize;

use super::Outcome;
use crate::cli::ReproduceArgs;
use crate::output::{Target, tell};
use crate::text::{count, counted};

/// The results of all requested papers.
struct Report {
    seed: u64,
    is_quick: bool,
    papers: Vec<Repeated>,
}

/// The results of a paper.
struct Repeated {
    paper: &'static Paper,
    claims: Vec<Claim>,
    figures: Vec<Figure>,
}

/// How long it took: the only thing that differs from run to run.
#[derive(Serialize)]
struct Timings {
    threads: usize,
    seconds: f64,
    /// Experiments run in parallel, so these add up to more than the total.
    experiments: Vec<Timing>,
}

#[derive(Serialize)]
struct Timing {
    paper: &'static str,
    experiment: &'static str,
    seconds: f64,
}

pub(super) fn run(args: &ReproduceArgs) -> Result<Outcome> {
    if args.live {
        return live::run(args);
    }
    let papers = named(&args.papers)?;
    let out = args.html.as_deref().map(|path| Target::new(path, &[])).transpose()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(args.threads)).build();
    let pool = pool.context("cannot start the threads; ask for fewer with --threads")?;
    let (report, timings) = pool.install(|| repeat(&papers, args.seed, args.quick));
    if let Some(out) = out {
        let page = page::page(&report);
        out.write(|file| file.write_all(page.as_bytes()))?;
    }
    let text = if args.json { json::object(&report, &timings)? } else { report.for_people() };
    tell(&text, &[args.html.as_deref()])?;
    Ok(Outcome::Done)
}

/// The papers with these numbers, in their own order; all papers if no number is given.
fn named(numbers: &[String]) -> Result<Vec<&'static Paper>> {
    if let Some(unknown) = numbers.iter().find(|number| PAPERS.iter().all(|paper| paper.number != **number)) {
        let known: Vec<&str> = PAPERS.iter().map(|paper| paper.number).collect();
        bail!("there is no paper `{unknown}`; the papers are {}", known.join(", "));
    }
    let is_named = |paper: &&Paper| numbers.is_empty() || numbers.iter().any(|number| number == paper.number);
    Ok(PAPERS.iter().copied().filter(is_named).collect())
}

/// Runs all experiments in parallel: some of them have parts that keep only one core busy.
fn repeat(papers: &[&'static Paper], seed: u64, is_quick: bool) -> (Report, Timings) {
    let lab = Lab::new(seed, is_quick);
    let experiments: Vec<(&Paper, &Experiment)> = papers
        .iter()
        .flat_map(|paper| paper.experiments.iter().map(move |experiment| (*paper, experiment)))
        .collect();
    let bar = progress_bar(experiments.len() as u64);
    let start = Instant::now();
    let run = |&(paper, experiment): &(&Paper, &'static Experiment)| -> (Section, f64) {
        bar.set_message(format!("{}: {}", paper.number, experiment.name));
        let start = Instant::now();
        let section = (experiment.run)(&lab);
        bar.inc(1);
        (section, start.elapsed().as_secs_f64())
    };
    let (sections, seconds): (Vec<Section>, Vec<f64>) = experiments.par_iter().map(run).unzip();
    bar.finish_and_clear();
    let timed = experiments.iter().zip(seconds).map(|((paper, experiment), seconds)| Timing {
        paper: paper.number,
        experiment: experiment.name,
        seconds,
    });
    let timings = Timings {
        threads: rayon::current_num_threads(),
        seconds: start.elapsed().as_secs_f64(),
        experiments: timed.collect(),
    };
    let mut sections = sections.into_iter();
    let papers =
        papers.iter().map(|paper| Repeated::new(paper, sections.by_ref().take(paper.experiments.len())));
    (Report { seed, is_quick, papers: papers.collect() }, timings)
}

fn progress_bar(n: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    let bar = style.map_or_else(|_| ProgressBar::new(n), |style| ProgressBar::new(n).with_style(style));
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

impl Repeated {
    fn new(paper: &'static Paper, sections: impl Iterator<Item = Section>) -> Self {
        let (mut claims, mut figures) = (Vec::new(), Vec::new());
        for section in sections {
            claims.extend(section.claims);
            figures.extend(section.figures);
        }
        Self { paper, claims, figures }
    }
}

/// All verdicts, the best first.
const VERDICTS: [Verdict; 3] = [Verdict::Holds, Verdict::Conditional, Verdict::Fails];

/// The number of claims with each of the [`VERDICTS`].
fn tally<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> [usize; 3] {
    let mut tally = [0; 3];
    for claim in claims {
        tally[claim.verdict as usize] += 1;
    }
    tally
}

/// The same in words: 5 hold, 1 holds with conditions, 2 do not hold.
fn tally_in_words(tally: [usize; 3]) -> String {
    let words = VERDICTS.iter().zip(tally).filter(|(_, n)| *n > 0).map(|(verdict, n)| {
        let words = match verdict {
            Verdict::Holds => ["holds", "hold"],
            Verdict::Conditional => ["holds with conditions", "hold with conditions"],
            Verdict::Fails => ["does not hold", "do not hold"],
        };
        format!("{} {}", count(n as u64), words[usize::from(n != 1)])
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Whether a verdict changes under another choice of a parameter that the paper does not state.
fn depends_on_choice(claim: &Claim) -> bool {
    claim.variations.iter().any(|variation| variation.verdict != claim.verdict)
}

impl Report {
    fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.papers.iter().flat_map(|repeated| &repeated.claims)
    }

    fn for_people(&self) -> String {
        let mut text = String::new();
        for Repeated { paper, claims, .. } in &self.papers {
            let _ = writeln!(text, "{} {}\n\n{}", paper.number, paper.title, claims_table(claims));
        }
        let n_claims = counted(self.claims().count() as u64, "claim");
        let n_papers = counted(self.papers.len() as u64, "paper");
        let _ = writeln!(text, "{n_claims} of {n_papers}: {}.", tally_in_words(tally(self.claims())));
        if self.is_quick {
            text.push_str("A quick run: rough answers. Without --quick they are exact enough to judge by.\n");
        }
        text
    }
}

/// One row per claim: id, the paper's statement in short, verdict, what was measured.
fn claims_table(claims: &[Claim]) -> String {
    const SAYS: usize = 60;
    // The page and the JSON have all of it.
    const MEASURED: usize = 90;
    let id_width = claims.iter().map(|claim| claim.id.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for claim in claims {
        let (says, measured) = (shortened(claim.says, SAYS), shortened(&claim.measured, MEASURED));
        let _ = writeln!(text, "  {:<id_width$}  {says:<SAYS$}  {:<21}  {measured}", claim.id, claim.verdict);
    }
    text
}

/// Shortens a text to this length, by whole words.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most).collect();
    let kept = start.rsplit_once(' ').map_or(start.as_str(), |(kept, _)| kept);
    format!("{}…", kept.trim_end_matches([',', ';', ':', ' ']))
}
