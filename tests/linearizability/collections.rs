//! The model's lists, sets and hashes. As in Redis, a key whose collection becomes empty is
//! removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use harness::Reply;

use super::model::{Model, Value, bulk, optional};

/// The error that a key has a value of another type.
pub(super) struct WrongType;

/// A type of values.
pub(super) trait Members: Default {
    /// Returns the value, if it is of this type.
    fn of(value: &Value) -> Option<&Self>;

    /// Returns the value for changing, if it is of this type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;

    fn into_value(self) -> Value;

    /// Returns the value of a key; `None` if the key does not exist.
    fn read<'a>(model: &'a Model, key: &str) -> Result<Option<&'a Self>, WrongType> {
        model.keys.get(key).map(|value| Self::of(value).ok_or(WrongType)).transpose()
    }

    /// Returns the value of a key for changing. Creates an empty value if the key does not exist.
    fn write<'a>(model: &'a mut Model, key: &str) -> Result<&'a mut Self, WrongType> {
        let value =
            model.keys.entry(key.to_owned()).or_insert_with(|| Self::default().into_value());
        Self::of_mut(value).ok_or(WrongType)
    }
}

macro_rules! members {
    ($variant:ident, $type:ty) => {
        impl Members for $type {
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$variant(it) = value { Some(it) } else { None }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(it) = value { Some(it) } else { None }
            }

            fn into_value(self) -> Value {
                Value::$variant(self)
            }
        }
    };
}

type List = VecDeque<String>;
type Set = BTreeSet<String>;
type Hash = BTreeMap<String, String>;

members!(Text, String);
members!(List, List);
members!(Set, Set);
members!(Hash, Hash);

impl Model {
    pub(super) fn lists(&mut self, name: &str, arguments: &[&str]) -> Result<Reply, WrongType> {
        Ok(match (name, arguments) {
            ("LPUSH" | "RPUSH", [key, elements @ ..]) => {
                for element in elements {
                    self.push(key, name == "LPUSH", (*element).to_owned())?;
                }
                Reply::Integer(List::read(self, key)?.map_or(0, |list| list.len() as i64))
            }
            ("LPOP" | "RPOP", [key]) => optional(self.pop(key, name == "LPOP")?),
            ("RPOPLPUSH", [from, to]) => self.lists("LMOVE", &[from, to, "RIGHT", "LEFT"])?,
            ("LMOVE", [from, to, side, other_side]) => {
                if List::read(self, from)?.is_none() {
                    return Ok(Reply::Null);
                }
                List::read(self, to)?;
                let element = self.pop(from, *side == "LEFT")?.expect("it has elements");
                self.push(to, *other_side == "LEFT", element.clone())?;
                bulk(element)
            }
            ("LRANGE", [key, ..]) => {
                let list = List::read(self, key)?.into_iter().flatten();
                Reply::Array(list.map(bulk).collect())
            }
            ("LLEN", [key]) => {
                Reply::Integer(List::read(self, key)?.map_or(0, |list| list.len() as i64))
            }
            other => panic!("not a command: {other:?}"),
        })
    }

    fn push(&mut self, key: &str, at_head: bool, element: String) -> Result<(), WrongType> {
        let list = List::write(self, key)?;
        if at_head {
            list.push_front(element);
        } else {
            list.push_back(element);
        }
        self.touch(key);
        Ok(())
    }

    pub(super) fn pop(&mut self, key: &str, at_head: bool) -> Result<Option<String>, WrongType> {
        if List::read(self, key)?.is_none() {
            return Ok(None);
        }
        let list = List::write(self, key)?;
        let element = if at_head { list.pop_front() } else { list.pop_back() };
        self.touch(key);
        self.remove_if(key, List::is_empty);
        Ok(element)
    }

    pub(super) fn sets(&mut self, name: &str, arguments: &[&str]) -> Result<Reply, WrongType> {
        Ok(match (name, arguments) {
            ("SADD", [key, members @ ..]) => {
                let set = Set::write(self, key)?;
                let added = members.iter().filter(|it| set.insert((**it).to_owned())).count();
                self.touch_if(added, key)
            }
            ("SREM", [key, members @ ..]) => {
                if Set::read(self, key)?.is_none() {
                    return Ok(Reply::Integer(0));
                }
                let set = Set::write(self, key)?;
                let removed = members.iter().filter(|it| set.remove(**it)).count();
                self.remove_if(key, Set::is_empty);
                self.touch_if(removed, key)
            }
            ("SMOVE", [from, to, member]) => {
                let Some(set) = Set::read(self, from)? else { return Ok(Reply::Integer(0)) };
                let is_there = set.contains(*member);
                Set::read(self, to)?;
                if !is_there || from == to {
                    return Ok(Reply::Integer(i64::from(is_there)));
                }
                self.sets("SREM", &[from, member])?;
                self.sets("SADD", &[to, member])?;
                Reply::Integer(1)
            }
            ("SMEMBERS", [key]) => {
                let set = Set::read(self, key)?.into_iter().flatten();
                Reply::Array(set.map(bulk).collect())
            }
            ("SCARD", [key]) => {
                Reply::Integer(Set::read(self, key)?.map_or(0, |set| set.len() as i64))
            }
            other => panic!("not a command: {other:?}"),
        })
    }

    pub(super) fn hashes(&mut self, name: &str, arguments: &[&str]) -> Result<Reply, WrongType> {
        Ok(match (name, arguments) {
            ("HSET", [key, pairs @ ..]) => {
                let hash = Hash::write(self, key)?;
                let mut new = 0;
                for pair in pairs.chunks(2) {
                    new += i64::from(hash.insert(pair[0].to_owned(), pair[1].to_owned()).is_none());
                }
                self.touch(key);
                Reply::Integer(new)
            }
            ("HDEL", [key, fields @ ..]) => {
                if Hash::read(self, key)?.is_none() {
                    return Ok(Reply::Integer(0));
                }
                let hash = Hash::write(self, key)?;
                let removed = fields.iter().filter(|it| hash.remove(**it).is_some()).count();
                self.remove_if(key, Hash::is_empty);
                self.touch_if(removed, key)
            }
            ("HINCRBY", [key, field, by]) => {
                let by: i64 = by.parse().expect("an integer");
                let value = Hash::write(self, key)?.entry((*field).to_owned()).or_default();
                let old: i64 = if value.is_empty() { 0 } else { value.parse().expect("a number") };
                *value = (old + by).to_string();
                self.touch(key);
                Reply::Integer(old + by)
            }
            ("HGETALL", [key]) => {
                let hash = Hash::read(self, key)?.into_iter().flatten();
                Reply::Array(hash.flat_map(|(field, value)| [bulk(field), bulk(value)]).collect())
            }
            other => panic!("not a command: {other:?}"),
        })
    }

    /// Records a change if `count` is not 0. Returns `count` as the reply.
    fn touch_if(&mut self, count: usize, key: &str) -> Reply {
        if count > 0 {
            self.touch(key);
        }
        Reply::Integer(count as i64)
    }

    fn remove_if<T: Members>(&mut self, key: &str, is_empty: fn(&T) -> bool) {
        if self.keys.get(key).and_then(T::of).is_some_and(is_empty) {
            self.remove(key);
        }
    }
}
