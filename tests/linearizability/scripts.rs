//! The scripts of histories, in Lua and as the model executes them.

use harness::Reply;

use super::collections::WrongType;
use super::model::{Model, Words};

/// Adds an amount to one counter and subtracts it from another.
pub(super) const TRANSFER: &str = "transfer";
/// Exchanges the values of two strings, and returns them.
pub(super) const SWAP: &str = "swap";
/// Moves the elements of a list one by one to the end of another. Returns their number.
pub(super) const DRAIN: &str = "drain";
/// Pushes an element and pops it again.
pub(super) const PUSH_AND_POP: &str = "push-and-pop";

/// Returns the source of the script with a name.
fn source(name: &str) -> &'static str {
    match name {
        TRANSFER => {
            "redis.call('INCRBY', KEYS[1], ARGV[1])
            return redis.call('INCRBY', KEYS[2], -ARGV[1])"
        }
        SWAP => {
            "local one, other = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
            if not one or not other then return 0 end
            redis.call('SET', KEYS[1], other)
            redis.call('SET', KEYS[2], one)
            return {one, other}"
        }
        DRAIN => {
            "local count = 0
            while redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT') do count = count + 1 end
            return count"
        }
        PUSH_AND_POP => {
            "redis.call('LPUSH', KEYS[1], ARGV[1])
            return redis.call('LPOP', KEYS[1])"
        }
        other => panic!("there is no script {other}"),
    }
}

/// Returns the words to send: for EVAL, with a script's source instead of its name.
pub(super) fn to_send(words: &Words) -> Words {
    let mut words = words.clone();
    if words[0] == "EVAL" {
        words[1] = source(&words[1]).to_owned();
    }
    words
}

/// Executes EVAL in the model.
pub(super) fn run(model: &mut Model, arguments: &[&str]) -> Result<Reply, WrongType> {
    match *arguments {
        [TRANSFER, _, to, from, amount] => {
            model.at_once("INCRBY", &[to, amount])?;
            model.at_once("INCRBY", &[from, &format!("-{amount}")])
        }
        [SWAP, _, key, other_key] => {
            let mut get = |key| model.at_once("GET", &[key]);
            let values = [get(key)?, get(other_key)?];
            if values.contains(&Reply::Null) {
                return Ok(Reply::Integer(0));
            }
            model.at_once("SET", &[key, &values[1].text()])?;
            model.at_once("SET", &[other_key, &values[0].text()])?;
            Ok(Reply::Array(values.into()))
        }
        [DRAIN, _, from, to] => {
            let mut count = 0;
            while model.at_once("LMOVE", &[from, to, "LEFT", "RIGHT"])? != Reply::Null {
                count += 1;
            }
            Ok(Reply::Integer(count))
        }
        [PUSH_AND_POP, _, key, element] => {
            model.at_once("LPUSH", &[key, element])?;
            model.at_once("LPOP", &[key])
        }
        ref other => panic!("there is no script {other:?}"),
    }
}
