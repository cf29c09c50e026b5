//! The explanation for machines.

use evenkeel::check::Subject;
use evenkeel::explain::{CopyAdvice, Explanation, PERCENTS};
use evenkeel::model::{ExtraCopy, Ratio};
use evenkeel_formats::{Bottleneck, CurvePoint, Figure};
use serde::Serialize;

use super::advice::{self, ClientsObject, subject_name};
use super::{Report, n_requests};

/// The whole explanation, for machines.
#[derive(Serialize)]
pub(super) struct Object<'a> {
    format: u32,
    subject: &'static str,
    requests: usize,
    clients: usize,
    servers: usize,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    bytes: u128,
    bottleneck: &'a Bottleneck,
    one_more_copy: Vec<AdviceObject<'a>>,
    copy_of_everything: AdviceObject<'a>,
    twice_as_fast: Option<FasterObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    for_clients: Vec<ClientsObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    today: Option<TodayObject<'a>>,
    loads: Vec<LoadObject<'a>>,
}

#[derive(Serialize)]
struct AdviceObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u64>,
    reached: bool,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    blocks: u64,
    bytes: u128,
    requests: u64,
    copies: Vec<CopyObject<'a>>,
}

#[derive(Serialize)]
struct CopyObject<'a> {
    request: u32,
    client: &'a str,
    from: &'a str,
    to: &'a str,
    blocks: u64,
}

#[derive(Serialize)]
struct FasterObject<'a> {
    server: &'a str,
    speed: Figure,
    lower_bound: Figure,
}

/// Who serves today.
#[derive(Serialize)]
struct TodayObject<'a> {
    max_load: Figure,
    least_max_load: Figure,
    curve: &'a [CurvePoint],
}

#[derive(Serialize)]
struct LoadObject<'a> {
    server: &'a str,
    blocks: u64,
    bytes: u128,
    done: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    done_seconds: Option<Figure>,
    bottleneck: bool,
}

impl Report {
    pub(super) fn as_json(&self, subject: Subject) -> Object<'_> {
        let Explanation { bound, copies, faster, everything, clients } = &self.explanation;
        let batch = &self.input.batch;
        let percents = PERCENTS.iter().copied().map(Some);
        Object {
            format: 1,
            subject: subject_name(subject),
            requests: batch.n_requests(),
            clients: batch.n_clients(),
            servers: batch.n_servers(),
            lower_bound: bound.value.into(),
            lower_bound_seconds: self.units.seconds(bound.value.into()),
            bytes: batch.total_bytes(),
            bottleneck: &self.bottleneck,
            one_more_copy: percents
                .zip(copies)
                .map(|(percent, advice)| self.advice(percent, advice))
                .collect(),
            copy_of_everything: self.advice(None, everything),
            twice_as_fast: faster.as_ref().map(|advice| FasterObject {
                server: self.server(advice.server),
                speed: Ratio::new(advice.speed.millionths().into(), 1_000_000).into(),
                lower_bound: advice.bound.value.into(),
            }),
            for_clients: clients.iter().map(|advice| advice::as_object(advice, &self.units)).collect(),
            today: self.today.as_ref().map(|today| TodayObject {
                max_load: today.max_load.into(),
                least_max_load: today.bound.into(),
                curve: &today.curve,
            }),
            loads: self
                .loads
                .iter()
                .map(|load| LoadObject {
                    server: self.server(load.server),
                    blocks: load.blocks,
                    bytes: self.units.bytes(load.blocks),
                    done: load.done.into(),
                    done_seconds: self.units.seconds(load.done.into()),
                    bottleneck: load.is_bottleneck,
                })
                .collect(),
        }
    }

    fn advice(&self, percent: Option<u64>, advice: &CopyAdvice) -> AdviceObject<'_> {
        let copy = |&ExtraCopy { request, from, to, blocks }: &ExtraCopy| CopyObject {
            request,
            client: self.client(self.input.batch.client(request as usize)),
            from: self.server(from),
            to: self.server(to),
            blocks,
        };
        AdviceObject {
            percent,
            reached: advice.is_reached,
            lower_bound: advice.bound.value.into(),
            lower_bound_seconds: self.units.seconds(advice.bound.value.into()),
            blocks: advice.blocks(),
            bytes: self.units.bytes(advice.blocks()),
            requests: n_requests(&advice.copies),
            copies: advice.copies.iter().map(copy).collect(),
        }
    }
}
