//! ACL LOAD and ACL SAVE: the ACL file (`aclfile`).

use super::common::{ADMIN, TIPS};
use super::users::take_effect;
use crate::runtime::user_file;
use crate::{Category, Command, Context, Error, Group, Keys, Notes};
use nagi_proto::Args;

fn load<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let config = cx.server.config();
    let _writing = config.writing();
    let read = user_file::read(config, cx.server.commands())?;
    let before = config.users().change(|users| {
        let mut before = std::mem::replace(users, read);
        before.retain(|name, user| users.get(name) != Some(user));
        before
    });
    take_effect(cx, &before);
    cx.reply.ok();
    Ok(())
}

pub(super) static LOAD: Command = Command {
    name: "LOAD",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Reloads the file of users; after an error nothing is changed",
    subcommands: &[],
    run: load,
};

fn save<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    user_file::write(cx.server.config())?;
    cx.reply.ok();
    Ok(())
}

pub(super) static SAVE: Command = Command {
    name: "SAVE",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)").tips(TIPS),
    summary: "Writes all users to the file of users",
    subcommands: &[],
    run: save,
};
