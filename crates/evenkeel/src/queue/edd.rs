//! Earliest due date: what HIO of paper 002 §III aims at, with the promise that its §IV makes. Not in the paper.
//!
//! *`hio-edd`*. Under SIO every application completes at some time. That determines when each of its requests must have
//! been read: without a barrier, at that time less the request's shuffle; with a barrier, less the application's
//! longest shuffle. SIO meets all these dates, and earliest due date first meets all dates that any order meets, so no
//! application is later than under SIO. Some are earlier: their dates are tightened, repeatedly. This needs the
//! completions of all servers, so it is for a planner, which sends servers the dates. The dates of one model say
//! nothing about the other.
//!
//! *`hio-edd-local`*. What a server can do with the hints of its own requests: a request is due when SIO would have
//! read it, plus its acceptable delay. Then the shuffle of each request ends no later than its application's slowest
//! shuffle would after SIO's read: without a barrier, no application is later than SIO is *with* one. Nothing is
//! promised if SIO has no barrier either, or both have one.

use super::{Collective, Model, Orders, Request, sio};

/// The most passes; after these the dates hardly change. Each pass is as safe as the last.
const MOST_PASSES: usize = 10;

/// `hio-edd`: no application is later than under SIO, in this model.
pub fn order(collective: &Collective, model: Model) -> Orders {
    by_due_date(collective, &sio::order(collective), &due_dates(collective, model))
}

/// The due dates of all requests behind [`order`]: what a planner sends to the servers.
pub fn due_dates(collective: &Collective, model: Model) -> Vec<u128> {
    let sio = sio::order(collective);
    let mut done = collective.completions(&sio, model);
    let mut due = due_for(collective, &done, model);
    for _ in 1..MOST_PASSES {
        let earlier = collective.completions(&by_due_date(collective, &sio, &due), model);
        debug_assert!(earlier.iter().zip(&done).all(|(earlier, done)| earlier <= done));
        if earlier == done {
            break;
        }
        done = earlier;
        due = due_for(collective, &done, model);
    }
    due
}

/// When requests have to be read so that applications complete at these times, which must be feasible.
fn due_for(collective: &Collective, done: &[u128], model: Model) -> Vec<u128> {
    let due = |request: &Request| {
        let shuffle_ns = match model {
            Model::NoBarrier => request.shuffle_ns,
            Model::Barrier => collective.slowest_ns(request.app),
        };
        done[request.app.index()].saturating_sub(shuffle_ns.into())
    };
    collective.requests().iter().map(due).collect()
}

/// Orders every server by due date; ties are broken as under SIO.
fn by_due_date(collective: &Collective, sio: &Orders, due: &[u128]) -> Orders {
    let mut orders = sio.clone();
    let key = |&row: &u32| (due[row as usize], collective.requests()[row as usize].app);
    orders.0.iter_mut().for_each(|queue| queue.sort_by_key(key));
    orders
}

/// `hio-edd-local`: every server decides alone, from the hints of its requests.
pub fn local_order(collective: &Collective) -> Orders {
    collective.each_server(|queue| {
        let due = local_due_dates(queue, 0);
        let mut places = sio::order_queue(queue);
        places.sort_by_key(|&place| (due[place], queue[place].app));
        places
    })
}

/// For each request of one server, when SIO, starting now, would have read it, plus its acceptable delay.
pub(super) fn local_due_dates(queue: &[Request], now_ns: u64) -> Vec<u128> {
    let mut due = vec![0; queue.len()];
    let mut finish_ns = u128::from(now_ns);
    for place in sio::order_queue(queue) {
        finish_ns += u128::from(queue[place].read_ns);
        due[place] = finish_ns + u128::from(queue[place].ad_ns);
    }
    due
}
