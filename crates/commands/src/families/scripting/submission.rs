//! Submitting a request to the script thread, and waiting for its outcome.

use crate::runtime::context::Context;
use crate::runtime::{dispatch, gate};
use crate::state::scripts::{NewTask, Outcome, Pending, TaskKind};
use crate::{Error, JobProgress, Marks};

/// Submits a request to the script thread, and replies with its outcome.
///
/// # Errors
/// A slow script is running, for which no request may wait.
pub(crate) fn submit(
    cx: &mut Context<'_>,
    asked: TaskKind,
    is_read_only: bool,
) -> Result<(), Error> {
    let row = dispatch::resolve(cx.server.commands(), cx.args)?.index;
    let mut pending = Some(send(cx, row, asked, is_read_only)?);
    cx.start(Box::new(move |cx| {
        loop {
            let waits = match &pending {
                Some(pending) => pending,
                None if gate::is_held(cx, true) => return Ok(JobProgress::WOKEN),
                None => {
                    gate::admit_held(cx)?;
                    pending.insert(send(cx, row, asked, is_read_only)?)
                }
            };
            let Some(outcome) = waits.take() else { return Ok(JobProgress::WOKEN) };
            cx.client.info.mark(Marks::RUNS_SCRIPT, false);
            if !outcome.is_held {
                finish(cx, row, outcome);
                return Ok(JobProgress::Done);
            }
            pending = None;
        }
    }))
}

/// Submits a request to the script thread.
fn send(
    cx: &mut Context<'_>,
    row: usize,
    asked: TaskKind,
    is_read_only: bool,
) -> Result<Pending, Error> {
    let new = NewTask {
        row,
        args: cx.args,
        asked,
        is_read_only,
        time: cx.client.frozen_time,
        database: cx.client.database,
        version: cx.client.version,
        user: cx.client.user_name().into(),
        client: cx.client.info.id,
        http_client: cx.client.info.http_client.clone(),
        touches: !cx.client.info.marks().contains(Marks::NO_TOUCH),
        tracking: cx.client.tracking.clone(),
        waker: cx.client.waker.clone(),
    };
    let mut leased = cx.client.leased.take();
    let lease = leased.as_mut().and_then(|it| it.joint.take().map(|joint| (&it.lease, joint)));
    gate::note_slow_script(cx.server);
    let submitted = cx.server.scripts().submit(new, lease);
    cx.client.leased = leased;
    let pending = submitted.map_err(|busy| Error::fixed(busy.text()))?;
    cx.client.info.mark(Marks::RUNS_SCRIPT, true);
    Ok(pending)
}

/// Replies with the outcome. An error counts as a failure of this request, even within a
/// transaction.
fn finish(cx: &mut Context<'_>, row: usize, outcome: Outcome) {
    let Outcome { reply, error, has_failed, joint, written, ran, charge: _charge, .. } = outcome;
    cx.tally.key_costs.note_elsewhere(ran);
    cx.client.worked_elsewhere += ran;
    if let Some(leased) = &mut cx.client.leased {
        if joint.is_some() {
            leased.joint = joint;
        }
        leased.written.extend(written);
    }
    if has_failed || error.is_some() {
        cx.tally.count_failure(row);
    }
    match error {
        Some((text, is_counted)) => {
            if !is_counted {
                cx.tally.count_error(&text);
            }
            cx.reply.error(text);
        }
        None => cx.reply.append(&reply),
    }
}
