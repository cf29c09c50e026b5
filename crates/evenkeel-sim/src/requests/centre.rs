//! A scheduler in the centre chooses servers again at every arrival (paper 001).

use evenkeel::model::{Batch, Choice, Cluster, ServerId};
use evenkeel::select::replanned::{Replanned, TakeBack};

use super::{Centre, Requests, Run, View, Windows};
use crate::fabric::{Fabric, Happening};
use crate::outcome::Outcome;

/// At every arrival what `take_back` says is chosen anew together with what has arrived. A server gets its next request
/// when a slot is free. Each start is a decision of the centre and a message.
pub fn centre(
    requests: &Requests,
    fabric: Fabric<'_>,
    view: &View,
    take_back: TakeBack,
    select: impl FnMut(&Batch, &Cluster) -> Choice,
) -> Outcome {
    let mut windows = Windows::new(&fabric);
    let n_servers = fabric.hardware().servers.len();
    let mut scheduler = Replanned::new(&requests.batch, &view.cluster, take_back, select);
    let mut run = Run::new(requests, fabric);
    let mut centre = Centre::default();
    let mut n_running = vec![0; n_servers];
    // Where each request was sent; a lost one may go elsewhere than was chosen.
    let mut servers: Vec<ServerId> = vec![ServerId(0); requests.batch.n_requests()];
    let mut stranded: Vec<u32> = Vec::new();
    let mut issued: Vec<u32> = Vec::new();
    while let Some((_, happening)) = run.fabric.next() {
        match happening {
            Happening::Arrival => {
                while let Some(request) = run.next_arrival() {
                    windows.arrived(&requests.batch, request, |request| issued.push(request));
                }
            }
            Happening::Done { tag } => {
                let request = tag as u32;
                let server = servers[request as usize];
                run.count(run.whole(request, server));
                run.deliver(request);
                // Both fit: it was in service.
                let _ = scheduler.done(request);
                n_running[server.index()] -= 1;
                windows.done(&requests.batch, request, |request| issued.push(request));
            }
            Happening::Lost { tag } => {
                n_running[servers[tag as usize].index()] -= 1;
                stranded.push(tag as u32);
            }
            Happening::Up { .. } | Happening::Down { .. } | Happening::Timer { .. } => {}
        }
        stranded.retain(|&request| {
            let Some(server) = run.holder(request) else { return true };
            servers[request as usize] = server;
            n_running[server.index()] += 1;
            let job = run.whole(request, server);
            centre.dispatch(&mut run, job);
            false
        });
        if !issued.is_empty() {
            issued.drain(..).for_each(|request| _ = scheduler.arrived(request));
            scheduler.replan();
            run.outcome.n_replans += 1;
        }
        for server in (0..n_servers as u32).map(ServerId) {
            let slots = run.fabric.hardware().servers[server.index()].slots;
            while n_running[server.index()] < slots
                && run.fabric.is_up(server.0)
                && let Ok(Some(request)) = scheduler.start(server)
            {
                n_running[server.index()] += 1;
                servers[request as usize] = server;
                let job = run.whole(request, server);
                centre.dispatch(&mut run, job);
            }
        }
    }
    run.finish()
}
