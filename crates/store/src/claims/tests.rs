//! Tests claimers and conflicting requests step by step.

use super::announcement::Announcement;
use super::claiming::*;
use super::stripe::Intent;
use super::table::*;
use crate::entry::key::Key;
use crate::sync::quiescence::Quiescence;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Claimant {
    bell: Arc<Bell>,
    waker: Waker,
}

impl Claimant {
    fn new() -> Self {
        let bell = Arc::<Bell>::default();
        Claimant { waker: Waker::from(Arc::clone(&bell)), bell }
    }

    fn calls(&self) -> usize {
        self.bell.0.load(Ordering::SeqCst)
    }
}

fn key(name: u64) -> Key<'static> {
    Key { bytes: b"", hash: name, long: None }
}

struct Fixture {
    claims: Arc<Claims>,
    quiescence: Quiescence,
}

impl Fixture {
    fn new() -> Self {
        Fixture { claims: Claims::new(), quiescence: Quiescence::new(2) }
    }

    fn claiming(&self, names: &[u64], intent: Intent) -> Claiming {
        let mut claiming = Claiming::new(&self.claims);
        names.iter().for_each(|name| claiming.add(key(*name), intent));
        claiming
    }

    fn step(&self, claiming: &mut Claiming, claimant: &Claimant) -> ClaimProgress {
        claiming.step(&self.quiescence, 0, &claimant.waker, || false)
    }

    fn held(&self, names: &[u64], intent: Intent) -> Claim {
        let step = self.step(&mut self.claiming(names, intent), &Claimant::new());
        let ClaimProgress::Held(claim) = step else { unreachable!("{step:?}") };
        claim
    }

    fn waits(&self, claiming: &mut Claiming, claimant: &Claimant) {
        let step = self.step(claiming, claimant);
        assert!(matches!(step, ClaimProgress::Wait), "{step:?}");
    }

    /// Whether nothing is claimed, and there are no waiters.
    fn is_forgotten(&self) -> bool {
        self.claims.is_forgotten()
    }
}

#[test]
fn request_that_meets_a_claim_waits_and_is_woken() {
    let world = Fixture::new();
    let (reader, writer) = (Claimant::new(), Claimant::new());
    assert!(world.claims.meet(1, Intent::Write, &writer.waker).is_none());
    let claim = world.held(&[1, 2, 2, 1], Intent::Read);
    assert!(world.claims.any());
    assert!(world.claims.meet(1, Intent::Read, &reader.waker).is_none(), "readers share");
    assert!(world.claims.meet(3, Intent::Write, &writer.waker).is_none(), "not claimed");
    let wait = world.claims.meet(2, Intent::Write, &writer.waker);
    assert!(wait.is_some());
    assert_eq!(writer.calls(), 0);
    drop(claim);
    assert_eq!(writer.calls(), 1);
    assert!(world.claims.meet(2, Intent::Write, &writer.waker).is_none());
    drop(wait);
    assert!(world.is_forgotten());
}

#[test]
fn claim_waits_for_batches_that_have_not_seen_it() {
    let world = Fixture::new();
    let claimant = Claimant::new();
    let batch = world.quiescence.enter(1);
    let mut claiming = world.claiming(&[1], Intent::Write);
    assert!(matches!(world.step(&mut claiming, &claimant), ClaimProgress::More));
    assert!(matches!(world.step(&mut claiming, &claimant), ClaimProgress::More));
    drop(batch);
    let later = world.quiescence.enter(1);
    assert!(matches!(world.step(&mut claiming, &claimant), ClaimProgress::Held(_)));
    drop((later, claiming));
    assert!(world.is_forgotten());
}

#[test]
fn claimers_are_served_in_order_of_arrival() {
    let world = Fixture::new();
    let [first, second, third] = [(); 3].map(|()| Claimant::new());
    let claim = world.held(&[1], Intent::Write);
    let request = world.claims.meet(1, Intent::Read, &first.waker);
    let mut claiming = world.claiming(&[1], Intent::Write);
    world.waits(&mut claiming, &second);
    let late = world.claims.meet(1, Intent::Read, &third.waker);
    drop(claim);
    assert_eq!([first.calls(), second.calls(), third.calls()], [1, 0, 0]);
    world.waits(&mut world.claiming(&[1], Intent::Read), &Claimant::new());
    drop(request);
    assert_eq!([first.calls(), second.calls(), third.calls()], [1, 1, 0]);
    let ClaimProgress::Held(claim) = world.step(&mut claiming, &second) else { panic!("its turn") };
    assert_eq!(third.calls(), 0);
    drop(claim);
    assert_eq!(third.calls(), 1);
    drop((late, claiming));
    assert!(world.is_forgotten());
}

#[test]
fn waiting_claimer_holds_no_claim() {
    let world = Fixture::new();
    let claimant = Claimant::new();
    let claim = world.held(&[5], Intent::Write);
    let mut claiming = world.claiming(&[1, 2, 5], Intent::Write);
    world.waits(&mut claiming, &claimant);
    assert!(world.claims.meet(1, Intent::Write, &claimant.waker).is_none());
    drop(claim);
    assert_eq!(claimant.calls(), 1);
    drop(claiming);
    assert!(world.is_forgotten());
}

#[test]
fn claimer_that_failed_often_holds_new_claimers_back() {
    let world = Fixture::new();
    let (patient, newcomer) = (Claimant::new(), Claimant::new());
    let mut patient_one = world.claiming(&[1, 2], Intent::Write);
    for name in [1, 2, 1] {
        let obstacle = world.held(&[name], Intent::Write);
        world.waits(&mut patient_one, &patient);
        drop(obstacle);
    }
    let mut new_one = world.claiming(&[9], Intent::Write);
    world.waits(&mut new_one, &newcomer);
    let ClaimProgress::Held(claim) = world.step(&mut patient_one, &patient) else {
        panic!("its turn")
    };
    assert_eq!(newcomer.calls(), 1);
    assert!(matches!(world.step(&mut new_one, &newcomer), ClaimProgress::Held(_)));
    drop((claim, patient_one, new_one));
    assert!(world.is_forgotten());
}

/// The claimer that holds new claimers back may itself be held back by the whole keyspace.
#[test]
fn claimer_with_the_ticket_is_woken_when_the_whole_keyspace_is_released() {
    for is_claimed in [false, true] {
        let world = Fixture::new();
        let [often, whole] = [(); 2].map(|()| Claimant::new());
        let claim = world.held(&[1], Intent::Write);
        let mut claiming = world.claiming(&[1], Intent::Write);
        (0..3).for_each(|_| world.waits(&mut claiming, &often));
        let mut everything = world.claiming(&[], Intent::Write);
        everything.add_everything();
        // A snapshot or a request such as FLUSHALL, or a claim on everything.
        let wait = if is_claimed {
            world.waits(&mut everything, &whole);
            None
        } else {
            world.claims.unclaimed(&whole.waker, || unreachable!("a name is claimed"))
        };
        world.waits(&mut claiming, &often);
        drop(claim);
        assert_eq!(whole.calls(), 1);
        let held = is_claimed.then(|| world.step(&mut everything, &whole));
        if let Some(step) = &held {
            assert!(matches!(step, ClaimProgress::Held(_)), "{step:?}");
            world.waits(&mut claiming, &often);
        } else {
            assert!(world.claims.unclaimed(&whole.waker, || ()).is_none());
        }
        let calls = often.calls();
        drop((wait, held, everything));
        assert_eq!(often.calls(), calls + 1);
        assert!(matches!(world.step(&mut claiming, &often), ClaimProgress::Held(_)));
        drop(claiming);
        assert!(world.is_forgotten());
    }
}

#[test]
fn whole_keyspace_is_available_only_without_claims() {
    let world = Fixture::new();
    let (flusher, newcomer) = (Claimant::new(), Claimant::new());
    assert!(world.claims.meet_any(&flusher.waker).is_none());
    let claim = world.held(&[1], Intent::Read);
    let wait = world.claims.meet_any(&flusher.waker);
    assert!(wait.is_some());
    let mut claiming = world.claiming(&[2], Intent::Read);
    world.waits(&mut claiming, &newcomer);
    drop(claim);
    assert_eq!((flusher.calls(), newcomer.calls()), (1, 0));
    assert!(world.claims.meet_any(&flusher.waker).is_none());
    drop(wait);
    assert_eq!(newcomer.calls(), 1);
    assert!(matches!(world.step(&mut claiming, &newcomer), ClaimProgress::Held(_)));
    drop(claiming);
    assert!(world.is_forgotten());
}

#[test]
fn claiming_stops_at_the_end_of_a_slice() {
    let world = Fixture::new();
    let claimant = Claimant::new();
    let names: Vec<u64> = (0..200).collect();
    let mut claiming = world.claiming(&names, Intent::Write);
    let mut slices = 1;
    let mut claim = loop {
        match claiming.step(&world.quiescence, 0, &claimant.waker, || true) {
            ClaimProgress::More => slices += 1,
            ClaimProgress::Held(claim) => break claim,
            ClaimProgress::Wait => unreachable!("there is no other claimer"),
        }
    };
    assert_eq!(slices, 7);
    let mut slices = 1;
    while !claim.release(|| true) {
        slices += 1;
    }
    assert_eq!(slices, 7);
    drop((claim, claiming));
    assert!(world.is_forgotten());
}

#[test]
fn write_claim_includes_read_claim() {
    let world = Fixture::new();
    let mut claiming = world.claiming(&[1, 2], Intent::Read);
    claiming.add(key(1), Intent::Write);
    let step = world.step(&mut claiming, &Claimant::new());
    assert!(matches!(step, ClaimProgress::Held(_)), "{step:?}");
    drop((step, claiming));
    assert!(world.is_forgotten());
}

#[test]
fn dropped_claim_wakes_the_next_waiter() {
    let world = Fixture::new();
    let [first, second] = [(); 2].map(|()| Claimant::new());
    let claim = world.held(&[1], Intent::Write);
    let mut gone = world.claiming(&[1], Intent::Write);
    world.waits(&mut gone, &first);
    let request = world.claims.meet(1, Intent::Write, &second.waker);
    drop(claim);
    assert_eq!(second.calls(), 0);
    drop(gone);
    assert_eq!(second.calls(), 1);
    drop(request);
    assert!(world.is_forgotten());
}

impl Fixture {
    fn grow(
        &self,
        claim: &mut Claim,
        name: Option<u64>,
        growing: &mut Growing,
        claimant: &Claimant,
    ) -> Growth {
        let name = name.map(|name| (name, Intent::Write));
        claim.grow(name, growing, (&self.quiescence, 0), &claimant.waker)
    }
}

#[test]
fn growing_claim_goes_ahead_of_all_waiters() {
    let world = Fixture::new();
    let [script, other, waiter] = [(); 3].map(|()| Claimant::new());
    let mut claim = world.held(&[1], Intent::Write);
    let held = world.held(&[2], Intent::Write);
    let mut waiting = world.claiming(&[1, 2], Intent::Write);
    world.waits(&mut waiting, &other);
    let request = world.claims.meet(2, Intent::Read, &waiter.waker);
    let flush = world.claims.meet_any(&Claimant::new().waker);
    let mut growing = Growing::default();
    assert_eq!(world.grow(&mut claim, Some(2), &mut growing, &script), Growth::Wait);
    drop(held);
    assert_eq!([script.calls(), waiter.calls()], [1, 0]);
    assert_eq!(world.grow(&mut claim, Some(2), &mut growing, &script), Growth::Held);
    assert_eq!(world.grow(&mut claim, Some(2), &mut Growing::default(), &script), Growth::Held);
    let mut joint = claim.joint();
    assert_eq!(world.grow(&mut joint, Some(1), &mut Growing::default(), &script), Growth::Held);
    assert_eq!(world.grow(&mut joint, Some(3), &mut Growing::default(), &script), Growth::Held);
    drop(claim);
    assert_eq!(waiter.calls(), 1);
    assert!(world.claims.holds(3) && !world.claims.holds(2));
    drop((joint, request, waiting, flush));
    assert!(world.is_forgotten());
}

#[test]
fn growing_claim_waits_for_batches_that_have_not_seen_it() {
    let world = Fixture::new();
    let script = Claimant::new();
    let mut claim = world.held(&[1], Intent::Write);
    let batch = world.quiescence.enter(1);
    let mut growing = Growing::default();
    assert_eq!(world.grow(&mut claim, Some(2), &mut growing, &script), Growth::More);
    drop(batch);
    assert_eq!(world.grow(&mut claim, Some(2), &mut growing, &script), Growth::Held);
    drop(claim);
    assert!(world.is_forgotten());
}

#[test]
fn claim_grows_to_the_whole_keyspace_once_nothing_else_is_claimed() {
    let world = Fixture::new();
    let [script, newcomer, request] = [(); 3].map(|()| Claimant::new());
    let mut claim = world.held(&[1], Intent::Write);
    let held = world.held(&[2], Intent::Write);
    let mut growing = Growing::default();
    assert_eq!(world.grow(&mut claim, None, &mut growing, &script), Growth::Wait);
    let mut late = world.claiming(&[3], Intent::Write);
    world.waits(&mut late, &newcomer);
    drop(held);
    assert_eq!(script.calls(), 1);
    assert_eq!(world.grow(&mut claim, None, &mut growing, &script), Growth::Held);
    let wait = world.claims.meet(7, Intent::Read, &request.waker);
    assert!(wait.is_some());
    drop(claim);
    assert_eq!([newcomer.calls(), request.calls()], [1, 1]);
    drop((wait, late));
    assert!(world.is_forgotten());
}

#[test]
fn claim_on_the_whole_keyspace_needs_no_names() {
    let world = Fixture::new();
    let [script, early, late] = [(); 3].map(|()| Claimant::new());
    let mut claim = world.held(&[1], Intent::Write);
    let first_wait = world.claims.meet(1, Intent::Read, &early.waker);
    for name in [Some(2), None] {
        let growth = world.grow(&mut claim, name, &mut Growing::default(), &script);
        assert_eq!(growth, Growth::Held);
    }
    claim.release_names();
    assert_eq!(early.calls(), 1, "the name is free");
    let second_wait = world.claims.meet(1, Intent::Read, &early.waker);
    let late_wait = world.claims.meet(2, Intent::Read, &late.waker);
    assert!(second_wait.is_some() && late_wait.is_some(), "everything is claimed");
    drop((first_wait, claim));
    assert_eq!([early.calls(), late.calls()], [2, 1]);
    drop((second_wait, late_wait));
    assert!(world.is_forgotten());
}

#[test]
fn announced_claims_are_no_claims() {
    let world = Fixture::new();
    let announcement = Announcement::new(&world.claims, &world.quiescence);
    assert!(world.claims.any(), "requests look for their keys");
    let mut done = false;
    assert!(world.claims.unclaimed(Waker::noop(), || done = true).is_none());
    assert!(done && world.claims.meet_any(Waker::noop()).is_none());
    let mut everything = Claiming::new(&world.claims);
    everything.add_everything();
    let step = world.step(&mut everything, &Claimant::new());
    assert!(matches!(step, ClaimProgress::Held(_)), "{step:?}");
    drop((step, everything));
    assert!(world.claims.any());
    drop(announcement);
    assert!(world.is_forgotten());
}

#[test]
fn a_claim_that_was_announced_waits_for_the_batches_under_way() {
    let world = Fixture::new();
    let announcement = Announcement::new(&world.claims, &world.quiescence);
    let batch = world.quiescence.enter(1);
    let mut claiming = world.claiming(&[1], Intent::Write);
    let claimant = Claimant::new();
    assert!(matches!(world.step(&mut claiming, &claimant), ClaimProgress::More));
    drop(batch);
    let claim = world.step(&mut claiming, &claimant);
    assert!(matches!(claim, ClaimProgress::Held(_)), "{claim:?}");
    drop(announcement);
    assert!(world.claims.any(), "it is held still");
    drop((claim, claiming));
    assert!(world.is_forgotten());
}
