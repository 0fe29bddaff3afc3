//! A tab of a browser, for tests.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::chromium::{Chromium, at};

/// A page in its own browser context, which shares no state with other tabs.
pub(super) struct Tab<'a> {
    chromium: &'a mut Chromium,
    session: String,
    context: String,
    /// Addresses of all requests so far, in order.
    requests: Vec<String>,
    /// Status codes of all responses so far.
    statuses: Vec<u64>,
    /// Errors of the page so far.
    errors: Vec<String>,
}

/// The display that a page sees.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_dark: bool,
    pub(super) is_phone: bool,
}

impl<'a> Tab<'a> {
    pub(super) fn new(chromium: &'a mut Chromium) -> Result<Self> {
        let context = chromium.call(None, "Target.createBrowserContext", &json!({}))?;
        let context = text(at(&context, "/browserContextId"))?;
        let parameters = json!({ "url": "about:blank", "browserContextId": context });
        let target = chromium.call(None, "Target.createTarget", &parameters)?;
        let parameters = json!({ "targetId": at(&target, "/targetId"), "flatten": true });
        let session = chromium.call(None, "Target.attachToTarget", &parameters)?;
        let session = text(at(&session, "/sessionId"))?;
        let (requests, statuses, errors) = (Vec::new(), Vec::new(), Vec::new());
        let mut tab = Self { chromium, session, context, requests, statuses, errors };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(tab)
    }

    pub(super) fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.chromium.call(Some(&self.session), method, &parameters)
    }

    /// Opens an address, and waits until the page is loaded.
    pub(super) fn open(&mut self, address: &str) -> Result<()> {
        let answer = self.call("Page.navigate", json!({ "url": address }))?;
        if let Some(error) = at(&answer, "/errorText").as_str() {
            bail!("{address}: {error}");
        }
        self.until(
            "the page",
            "document.readyState === 'complete' && location.href !== 'about:blank'",
        )?;
        Ok(())
    }

    /// Returns the value of a JavaScript expression. If the value is a promise, awaits it.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
            "userGesture": true,
        });
        let answer = self.call("Runtime.evaluate", parameters)?;
        if let Some(exception) = answer.get("exceptionDetails") {
            let shown = at(exception, "/exception/description");
            bail!("{expression}: {}", shown.as_str().unwrap_or(&exception.to_string()));
        }
        Ok(at(&answer, "/result/value").clone())
    }

    /// Returns the value of an expression as text.
    pub(super) fn text(&mut self, expression: &str) -> Result<String> {
        text(&self.evaluate(expression)?).with_context(|| expression.to_owned())
    }

    /// Waits until the value of an expression is neither false, zero nor empty, and returns it.
    pub(super) fn until(&mut self, what: &str, expression: &str) -> Result<Value> {
        let is_true = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::Bool(true) | Value::Array(_) | Value::Object(_) => true,
        };
        let mut last = String::new();
        // During navigation there is no page in which the expression can be evaluated.
        let found = harness::until(what, || match self.evaluate(expression) {
            Ok(value) if is_true(&value) => Some(value),
            Ok(value) => {
                last = value.to_string();
                None
            }
            Err(error) => {
                last = error.to_string();
                None
            }
        });
        found.map_err(|problem| anyhow!("{problem}: {expression} was {last}"))
    }

    /// Fails unless an expression is true.
    pub(super) fn check(&mut self, expression: &str) -> Result<()> {
        let value = self.evaluate(expression)?;
        ensure!(value == Value::Bool(true), "{expression} is {value}");
        Ok(())
    }

    /// Inserts text into the focused element.
    pub(super) fn write(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({ "text": text })).map(drop)
    }

    /// Presses the key named `key`, which produces `text`.
    pub(super) fn press(&mut self, key: &str, code: u32, text: &str) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let mut parameters = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if let Some(fields) = parameters.as_object_mut()
                && kind == "keyDown"
                && !text.is_empty()
            {
                fields.insert("text".to_owned(), text.into());
            }
            self.call("Input.dispatchKeyEvent", parameters)?;
        }
        Ok(())
    }

    /// Clicks on the centre of the first element that matches a selector.
    pub(super) fn click(&mut self, selector: &str) -> Result<()> {
        let place = self.evaluate(&format!(
            "(() => {{ const it = document.querySelector({selector:?}); \
             it.scrollIntoView({{ block: 'center' }}); const box = it.getBoundingClientRect(); \
             return {{ x: box.x + box.width / 2, y: box.y + box.height / 2 }}; }})()"
        ))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let [x, y] = ["/x", "/y"].map(|name| at(&place, name));
            let parameters =
                json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", parameters)?;
        }
        Ok(())
    }

    /// Changes the emulated display.
    pub(super) fn look(&mut self, look: Look) -> Result<()> {
        let parameters = json!({
            "width": look.width, "height": look.height, "deviceScaleFactor": 1,
            "mobile": look.is_phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", parameters)?;
        let scheme = if look.is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        Ok(())
    }

    /// Returns the visible part of the page as a PNG.
    pub(super) fn screenshot(&mut self) -> Result<Vec<u8>> {
        let parameters = json!({ "format": "png", "optimizeForSpeed": false });
        let picture = self.call("Page.captureScreenshot", parameters)?;
        let decoded = STANDARD.decode(text(at(&picture, "/data"))?);
        decoded.map_err(|error| anyhow!("a picture is no base64: {error}"))
    }

    /// Returns the current HTML of the page. Works for pages without scripts.
    pub(super) fn html(&mut self) -> Result<String> {
        let document = self.call("DOM.getDocument", json!({ "depth": 0 }))?;
        let node = json!({ "nodeId": at(&document, "/root/nodeId") });
        let html = self.call("DOM.getOuterHTML", node)?;
        text(at(&html, "/outerHTML"))
    }

    /// Returns the addresses of all requests so far.
    pub(super) fn requests(&mut self) -> &[String] {
        self.take_events();
        &self.requests
    }

    /// Returns the status codes of all responses so far.
    pub(super) fn statuses(&mut self) -> &[u64] {
        self.take_events();
        &self.statuses
    }

    /// Returns the errors of the page: exceptions, policy violations, failed requests.
    pub(super) fn errors(&mut self) -> &[String] {
        self.take_events();
        &self.errors
    }

    fn take_events(&mut self) {
        for event in self.chromium.events(&self.session) {
            let parameters = at(&event, "/params");
            match at(&event, "/method").as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => {
                    self.requests.extend(text(at(parameters, "/request/url")));
                }
                "Network.webSocketCreated" => self.requests.extend(text(at(parameters, "/url"))),
                "Network.responseReceivedExtraInfo" => {
                    self.statuses.extend(at(parameters, "/statusCode").as_u64());
                }
                "Runtime.exceptionThrown" => {
                    self.errors.push(at(parameters, "/exceptionDetails").to_string());
                }
                "Log.entryAdded" => self.errors.extend(fault(at(parameters, "/entry"))),
                _ => {}
            }
        }
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        let context = json!({ "browserContextId": self.context });
        // The browser may have exited already.
        let _ = self.chromium.call(None, "Target.disposeBrowserContext", &context);
    }
}

/// Returns the text of an entry in the browser's log, if it is an error of the page. A missing icon
/// is no error, because browsers request one from every host.
fn fault(entry: &Value) -> Option<String> {
    let is_of_icon = at(entry, "/url").as_str().is_some_and(|url| url.ends_with("/favicon.ico"));
    (at(entry, "/level") == "error" && !is_of_icon).then(|| entry.to_string())
}

fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("{value} is no text"))
}
