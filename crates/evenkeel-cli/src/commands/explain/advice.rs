//! Advice: for people, for machines, and for `evenkeel apply`.

use evenkeel::bound::Bound;
use evenkeel::check::Subject;
use evenkeel::explain::{Change, ClientAdvice, Explanation, Help, PERCENTS, advise_slots};
use evenkeel::model::{ClientId, Move};
use evenkeel_formats::{Advice, AdviceFile, Figure, Input};
use serde::Serialize;

use crate::text::{count, counted};
use crate::units::Units;

/// A piece of advice for clients without the details of its changes, for machines.
#[derive(Serialize)]
pub(super) struct ClientsObject {
    advice: &'static str,
    lower_bound: Figure,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_bound_seconds: Option<Figure>,
    /// The number of clients that get more slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<usize>,
    /// The most slots that one of them then has.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_client: Option<String>,
    /// The amount of work that moves to other clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
}

pub(super) fn as_object(advice: &ClientAdvice, units: &Units) -> ClientsObject {
    let mut object = ClientsObject {
        advice: name(advice.help),
        lower_bound: advice.bound.value.into(),
        lower_bound_seconds: units.seconds(advice.bound.value.into()),
        clients: None,
        slots: None,
        new_client: None,
        blocks: None,
        requests: None,
    };
    match &advice.change {
        Change::Slots(slots) => {
            (object.clients, object.slots) = (Some(slots.len()), Some(most(slots)));
        }
        Change::Moves { moves, new_client } => {
            (object.blocks, object.requests) = (Some(n_blocks(moves)), Some(n_requests(moves)));
            object.new_client.clone_from(new_client);
        }
        Change::Copies(_) | Change::Speed(..) => {}
    }
    object
}

/// The name of a piece of advice in the file.
fn name(help: Help) -> &'static str {
    match help {
        Help::SlotForOne => "slot",
        Help::SlotForAll => "slot-each",
        Help::EnoughSlots => "slots",
        Help::OneMoreClient => "client",
        Help::Spread => "spread",
    }
}

/// All advice that can be followed.
pub(super) fn file(explanation: &Explanation, input: &Input, subject: Subject) -> AdviceFile {
    let batch = &input.batch;
    let Explanation { bound, copies, faster, everything, clients } = explanation;
    let names = PERCENTS.iter().map(|percent| format!("copies-{percent}")).chain(["copies-all".to_owned()]);
    let copies = names.zip(copies.iter().chain([everything])).filter(|(_, advice)| !advice.copies.is_empty());
    let mut advice: Vec<Advice> = copies
        .map(|(name, advice)| {
            let change = Change::Copies(advice.copies.clone());
            Advice::new(&name, advice.bound.value.into(), batch, &change)
        })
        .collect();
    advice.extend(faster.iter().map(|faster| {
        let change = Change::Speed(faster.server, faster.speed);
        Advice::new("faster-server", faster.bound.value.into(), batch, &change)
    }));
    advice.extend(
        clients
            .iter()
            .map(|found| Advice::new(name(found.help), found.bound.value.into(), batch, &found.change)),
    );
    AdviceFile {
        format: 1,
        subject: subject_name(subject).to_owned(),
        block: batch.block_bytes(),
        batch_fingerprint: input.fingerprint(),
        lower_bound: bound.value.into(),
        advice,
    }
}

/// What a bound is about, as named in files.
pub(super) fn subject_name(subject: Subject) -> &'static str {
    if subject == Subject::Length { "length" } else { "max_load" }
}

/// A piece of advice for clients in words, the blocks it moves, and the number of their requests.
pub(super) fn cells(advice: &ClientAdvice, input: &Input, units: &Units) -> [String; 3] {
    let what = match (&advice.change, advice.help) {
        (Change::Slots(_), Help::SlotForAll) => "one more slot for every client".to_owned(),
        (Change::Slots(slots), _) => {
            let names = match slots[..] {
                [(client, _)] => format!("client {}", client_name(input, client)),
                _ => counted(slots.len() as u64, "client"),
            };
            let at_most = if slots.len() > 1 { "up to " } else { "" };
            format!("{at_most}{} for {names}", counted(most(slots).into(), "slot"))
        }
        (Change::Moves { new_client: Some(name), .. }, _) => format!("one more client, {name}"),
        _ => "work spread over all clients".to_owned(),
    };
    match &advice.change {
        Change::Moves { moves, .. } => [what, units.blocks(n_blocks(moves)), count(n_requests(moves))],
        _ => [what, String::new(), String::new()],
    }
}

/// A hint if the bound comes from clients that do few transfers at once, though many servers hold their data.
pub(in super::super) fn slots_hint(input: &Input, bound: &Bound, units: &Units) -> Option<String> {
    let advice = advise_slots(&input.batch, &input.cluster, bound)?;
    let Change::Slots(slots) = &advice.change else { return None };
    let after = format!("the bound would be {}", units.time(advice.bound.value));
    let at_once = |n: u32| match n {
        1 => "one transfer at a time".to_owned(),
        n => format!("{} at once", counted(n.into(), "transfer")),
    };
    Some(match slots[..] {
        [(client, slots)] => format!(
            "client {} does {}; with {} (column slots in --clients) {after}",
            client_name(input, client),
            at_once(input.cluster.client(client).slots),
            counted(slots.into(), "slot")
        ),
        _ => format!(
            "{} do too few transfers at once; with up to {} each (column slots in --clients) {after}",
            counted(slots.len() as u64, "client"),
            counted(most(slots).into(), "slot")
        ),
    })
}

fn client_name(input: &Input, client: ClientId) -> &str {
    input.batch.clients().name(client.0)
}

fn most(slots: &[(ClientId, u32)]) -> u32 {
    slots.iter().map(|(_, slots)| *slots).max().unwrap_or(0)
}

fn n_blocks(moves: &[Move]) -> u64 {
    moves.iter().map(|moved| moved.blocks).sum()
}

fn n_requests(moves: &[Move]) -> u64 {
    super::super::n_distinct(moves.iter().map(|moved| moved.request))
}
