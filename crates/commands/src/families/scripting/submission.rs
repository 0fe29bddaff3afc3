//! Submitting a request to the script thread, and waiting for its outcome.

use crate::runtime::context::{Command, Context};
use crate::state::scripts::{NewTask, Outcome, Pending, TaskKind};
use crate::{Error, JobProgress};

/// Submits a request to the script thread.
///
/// # Errors
/// A script has been slow for so long that no request may wait for it.
pub(crate) fn submit(
    cx: &mut Context<'_>,
    command: &'static Command,
    asked: TaskKind,
    is_read_only: bool,
) -> Result<(), Error> {
    let row = cx.server.commands().find(command.name.as_bytes()).map_or(0, |entry| entry.index);
    let user = cx.client.user_name().to_vec();
    let new = NewTask {
        row,
        args: cx.args,
        asked,
        is_read_only,
        database: cx.client.database,
        version: cx.client.version,
        user: &user,
        client: cx.client.info.id,
        tracking: cx.client.tracking.clone(),
        waker: cx.client.waker.clone(),
    };
    let mut leased = cx.client.leased.take();
    let lease = leased.as_mut().and_then(|it| it.joint.take().map(|joint| (&it.lease, joint)));
    let submitted = cx.server.scripts().submit(new, lease);
    cx.client.leased = leased;
    let pending = submitted.map_err(|busy| Error::fixed(busy.text()))?;
    cx.start(Box::new(move |cx| finish(cx, &pending)))
}

fn finish(cx: &mut Context<'_>, pending: &Pending) -> Result<JobProgress, Error> {
    let Some(outcome) = pending.take() else { return Ok(JobProgress::WOKEN) };
    let Outcome { reply, error, joint, written, ran } = outcome;
    cx.tally.key_costs.note_elsewhere(ran);
    if let Some(leased) = &mut cx.client.leased {
        if joint.is_some() {
            leased.joint = joint;
        }
        leased.written.extend(written);
    }
    match error {
        Some((text, false)) => return Err(Error(text.into())),
        Some((text, true)) => cx.reply.error(text),
        None => cx.reply.append(&reply),
    }
    Ok(JobProgress::Done)
}
