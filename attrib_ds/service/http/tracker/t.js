/// <reference path="./attrib.d.ts" />
/**
 * Measures the page views of a website. Served at /t.js; the how-to "Measure a site" describes its use.
 *
 * Nothing is kept in the browser before consent: until then the tracker id is in memory and ends with the page.
 * With consent it is in a cookie of the registrable domain, and links to other domains of the site carry it.
 */
(function () {
  "use strict";
  const script = /** @type {HTMLScriptElement | null} */ (document.currentScript);
  if (!script || !script.dataset.project || (window.attrib && "trackerId" in window.attrib)) return;
  const { project, key, domain, consent, gpc, dnt, link } = script.dataset;
  // What is counted beside page views, such as "links downloads".
  const counted = new Set((script.dataset.count || "").split(/\s+/));
  // Other domains of the site.
  const partners = (link || "").toLowerCase().split(/\s+/).filter(Boolean);
  const base = script.src.replace(/[^/]*$/, "");
  // The service sets cookies itself where it is part of the site.
  const isServed = base.startsWith(location.origin + "/");
  const cookie = "attrib-" + project;
  const shelf = cookie + ":";
  const refuses =
    (navigator.globalPrivacyControl && gpc !== "ignore") || (navigator.doNotTrack === "1" && dnt === "respect");
  // Thirteen months.
  const LIFETIME = 34128000;
  const LONGEST_URL = 4096;
  // Of a question, whose body is short.
  const LONGEST_REFERRER = 1024;
  const MOST_SECONDS = 60;
  // How long a message that is not accepted is sent again, and how many are kept for the next page.
  const DAY = 86400000;
  const MOST_KEPT = 50;
  const FILES = /\.(?:7z|avi|csv|dmg|docx?|epub|exe|gz|mov|mp[34]|msi|ods|odt|pdf|pkg|pptx?|rar|tar|txt|wav|xlsx?|zip)$/i;
  const DEPTHS = [25, 50, 75, 100];
  const MOST_WAIT = 2000;
  // Milliseconds for which a placement waits for the answer whether to show it.
  const LONGEST_QUESTION = 1000;
  // Parameter of links to other domains, and milliseconds after which its value is asked for again, and not used.
  const LINK = "_attrib";
  const AGING = 60000;
  const OLDEST = 110000;

  let id = newId();
  let isStored = false;
  let isGranted = consent === "granted";
  // URL of the page view that was counted last.
  let shown = "";
  /** @type {Hit | undefined} */
  let landing;
  /** What waits until the visitor is known: until the page is shown, and a consent banner has answered.
   * @type {(() => void)[] | undefined} */
  let held = [];
  let isDenied = false;
  let wait = 0;
  /** Domain of the cookie; empty is the host alone. */
  let home = domain || "";
  /** Value that the link to this page brought. */
  let brought = "";
  let isAsking = false;
  /** Value for the next link to another domain. */
  let offer = { value: "", owner: "", made: 0 };
  /** Number of depths that the page was scrolled to. */
  let depth = 0;
  /** Messages that the service has not accepted yet.
   * @type {Set<Message>} */
  const waiting = new Set();

  /** Call a function; an error must not reach the page.
   * @template T @param {() => T} work @returns {T | undefined} */
  function safely(work) {
    try {
      return work();
    } catch {
      return undefined;
    }
  }

  /** @returns {string} a random UUID, also on pages without TLS */
  function newId() {
    if (crypto.randomUUID) return crypto.randomUUID();
    return "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (digit) =>
      (+digit ^ (crypto.getRandomValues(new Uint8Array(1))[0] & (15 >> (+digit / 4)))).toString(16),
    );
  }

  /** @returns {string} a UUID that begins with the time, by which the service finds whether it has the hit */
  function newHitId() {
    const time = Date.now().toString(16).padStart(12, "0");
    return time.slice(0, 8) + "-" + time.slice(8) + "-7" + newId().slice(15);
  }

  /** @returns {string | undefined} the stored tracker id */
  function readCookie() {
    // Pages in a sandbox have no cookies.
    return safely(() => (document.cookie.match("(?:^|; )" + cookie + "=([\\w-]{36})(?:;|$)") || [])[1]);
  }

  /** @param {string} value @param {number} seconds @param {string} of domain @param {string} name */
  function writeCookie(value, seconds, of, name = cookie) {
    const where = (of ? "; Domain=" + of : "") + (location.protocol === "https:" ? "; Secure" : "");
    safely(() => (document.cookie = `${name}=${value}; Path=/; Max-Age=${seconds}; SameSite=Lax${where}`));
  }

  /** @returns {string[]} domains that a cookie of this page may have, the widest first */
  function widening() {
    const labels = /^[\d.]+$|:/.test(location.hostname) ? [] : location.hostname.split(".");
    return labels.slice(1).map((_, count) => labels.slice(-2 - count).join("."));
  }

  /** Find the widest domain whose cookies the browser accepts: only the browser knows who may register names. */
  function findHome() {
    if (domain !== undefined) return;
    const name = cookie + "-test";
    const isAccepted = /** @param {string} of */ (of) => {
      writeCookie("1", 10, of, name);
      const isThere = safely(() => document.cookie.includes(name + "=1"));
      writeCookie("", 0, of, name);
      return isThere;
    };
    home = widening().find(isAccepted) || "";
  }

  /** Remove the cookie of every domain. */
  function removeCookie() {
    for (const of of ["", home, ...widening()]) writeCookie("", 0, of);
  }

  /** Ask the service, which has a second to answer.
   * @param {string} path @param {object} content @returns {Promise<any>} */
  async function ask(path, content) {
    const response = await fetch(base + path, {
      method: "POST",
      body: JSON.stringify({ projectId: project, ...content, ingestKey: key }),
      credentials: "omit",
      signal: AbortSignal.timeout(LONGEST_QUESTION),
    });
    return response.json();
  }

  function grant() {
    isGranted = true;
    if (isStored || refuses || isAsking) return;
    if (!brought) {
      store(readCookie());
      return;
    }
    // Whoever follows a link between the site's domains is the same visitor, whatever the cookie was here.
    const question = ask("link", { link: brought, referrer: document.referrer.slice(0, LONGEST_REFERRER) });
    brought = "";
    isAsking = true;
    const go = /** @param {unknown} found */ (found) =>
      safely(() => {
        if (isGranted && !isStored) store(/^[\w-]{36}$/.test(String(found)) ? String(found) : readCookie());
        isAsking = false;
        release();
      });
    question.then((answer) => go(answer.trackerId), go);
  }

  /** Keep the id that lasts. @param {string | undefined} earlier */
  function store(earlier) {
    findHome();
    isStored = true;
    // What earlier pages could not send comes first.
    takeKept().forEach(send);
    if (earlier) id = earlier;
    // The page view again, under the id that lasts: the service joins the visit so far to it.
    if (landing) sendHit(landing);
    landing = undefined;
    // Safari ends a cookie sooner that a script has written last.
    if (!isServed || readCookie() !== id) writeCookie(id, LIFETIME, home);
    waiting.forEach(keep);
  }

  /** @param {boolean} forgets whether the stored id is removed */
  function deny(forgets) {
    isGranted = false;
    if (forgets) {
      removeCookie();
      takeKept();
    }
    if (isStored) id = newId();
    isStored = false;
  }

  /** Hear one entry of the data layer: gtag("consent", "default" | "update", {...}).
   * @param {any} entry @param {boolean} isLast whether no other entry is known */
  function hear(entry, isLast) {
    if (!entry || entry[0] !== "consent" || !entry[2]) return;
    const { analytics_storage: state, region, wait_for_update: time } = entry[2];
    const isUpdate = entry[1] === "update";
    if (state === "denied") {
      isDenied = true;
      deny(isUpdate);
      if (isUpdate) release();
      else wait = Math.max(wait, Math.min(+time || 0, MOST_WAIT));
    } else if (state === "granted" && (isUpdate || (!region && !isDenied))) {
      // A default of one region is not known to be that of the visitor; a denial counts everywhere.
      isGranted = true;
      if (isLast || isUpdate) answer();
    }
  }

  /** Act on what the visitor has chosen. */
  function answer() {
    if (isGranted) grant();
    release();
  }

  /** Hear the entries of the data layer so far, and those to come. */
  function listen() {
    const layer = window.dataLayer;
    if (!Array.isArray(layer) || "attrib" in layer.push) return;
    layer.slice().forEach((entry) => hear(entry, false));
    if (isGranted) answer();
    const push = layer.push;
    layer.push = Object.assign(
      /** @param {unknown[]} entries */
      function (...entries) {
        safely(() => entries.forEach((entry) => hear(entry, true)));
        return push.apply(layer, entries);
      },
      { attrib: true },
    );
  }

  /** Send a message until it is accepted, for a day at most; with consent, the next page goes on.
   * @param {Message} message */
  function send(message) {
    waiting.add(message);
    if (isStored) keep(message);
    message.timer = undefined;
    message.attempts += 1;
    const isKept = isStored;
    fetch(base + message.path, {
      method: "POST",
      body: body(message),
      keepalive: true,
      // The answer may have a cookie.
      credentials: isKept ? "same-origin" : "omit",
      headers: headers(message),
    }).then(
      (response) => {
        // Consent was withdrawn meanwhile, and the answer has set the cookie.
        if (isKept && !isStored) removeCookie();
        if (response.status === 429 || response.status >= 500) retry(message, response.headers.get("Retry-After"));
        else finish(message);
      },
      () => retry(message, null),
    );
  }

  /** @param {Message} message @param {string | null} seconds */
  function retry(message, seconds) {
    if (!waiting.has(message)) return;
    if (Date.now() - message.made > DAY) {
      finish(message);
      return;
    }
    const pause = Math.min(Math.max(Number(seconds) || 0, 2 ** (message.attempts - 1)), MOST_SECONDS);
    message.timer = setTimeout(() => safely(() => send(message)), pause * 1000);
  }

  /** @param {Message} message */
  function finish(message) {
    waiting.delete(message);
    safely(() => localStorage.removeItem(shelf + message.id));
  }

  /** The difference of both times of the browser's clock counts, so that the clock may be wrong.
   * @param {Message} message */
  function body({ path, content }) {
    const cookieDomain = isStored ? home : undefined;
    return JSON.stringify(path === "c" ? { ...content, cookieDomain, sentAt: new Date().toISOString() } : content);
  }

  /** @param {Message} message @returns {Record<string, string> | undefined} */
  function headers({ path }) {
    return key && path !== "c" ? { "X-Ingest-Key": key } : undefined;
  }

  /** Keep a message where the next page finds it.
   * @param {Message} message */
  function keep({ id, path, content, made }) {
    safely(() => {
      if (Object.keys(localStorage).filter((name) => name.startsWith(shelf)).length < MOST_KEPT)
        localStorage.setItem(shelf + id, JSON.stringify({ id, path, content, made }));
    });
  }

  /** @returns {Message[]} what earlier pages have kept, oldest first; it is taken off the shelf */
  function takeKept() {
    const kept = /** @type {Message[]} */ ([]);
    safely(() => {
      for (const name of Object.keys(localStorage).filter((name) => name.startsWith(shelf))) {
        const message = safely(() => JSON.parse(String(localStorage.getItem(name))));
        localStorage.removeItem(name);
        if (message && Date.now() - message.made < DAY) kept.push({ ...message, attempts: 0 });
      }
    });
    return kept.sort((one, other) => one.made - other.made);
  }

  /** Send without waiting what a closing page would lose; a request under way goes on by itself. */
  function flush() {
    isAsking = false;
    release();
    for (const message of waiting) {
      if (message.timer === undefined) continue;
      clearTimeout(message.timer);
      if (headers(message) || !navigator.sendBeacon(base + message.path, body(message))) send(message);
      waiting.delete(message);
    }
  }

  /** @param {string} path @param {string} id by which the service knows the content @param {object} content */
  function post(path, id, content) {
    send({ id, path, content, made: Date.now(), attempts: 0 });
  }

  /** @param {Hit} hit */
  function sendHit(hit) {
    if (!isStored) landing = landing || hit;
    // A browser that a program drives says so.
    const isAutomated = navigator.webdriver || undefined;
    // With and without the id that lasts, they are two messages.
    post("c", hit.hitId + isStored, { ...hit, trackerId: id, isPersistent: isStored, isAutomated, ingestKey: key });
  }

  /** Do something once the tracker id is that of the visitor.
   * @param {() => void} work */
  function onceKnown(work) {
    if (held) held.push(work);
    else work();
  }

  /** Do what waits; further things do not wait. */
  function release() {
    if (isAsking) return;
    const work = held || [];
    held = undefined;
    wait = 0;
    work.forEach(safely);
  }

  /** @param {string} url @returns {string} what makes it another page: without the fragment, unless it is a route */
  function pageOf(url) {
    return counted.has("hash") ? url : url.split("#")[0];
  }

  /** Count a page view, unless the page was counted already.
   * @param {string} page its URL */
  function show(page = location.href) {
    const url = pageOf(page);
    if (url === shown) return;
    const now = new Date();
    const hit = {
      projectId: String(project),
      hitId: newHitId(),
      hitType: "pageview",
      pageUrl: page.slice(0, LONGEST_URL),
      referrer: (shown || document.referrer).slice(0, LONGEST_URL),
      timezoneOffset: now.getTimezoneOffset(),
      date: now.toISOString(),
    };
    shown = url;
    depth = 0;
    onceKnown(() => sendHit(hit));
  }

  /** Count the page that the present URL has replaced another one by; a tidied query makes no other page. */
  function showReplaced() {
    const url = pageOf(location.href);
    if (url.split("?")[0] === shown.split("?")[0] && !counted.has("hash")) shown = url;
    else show();
  }

  /** @param {"pushState" | "replaceState"} name @param {() => void} work */
  function watch(name, work) {
    const original = history[name];
    history[name] = function (...values) {
      original.apply(this, values);
      safely(work);
    };
  }

  /** Count a click that leaves the page or loads a file.
   * @param {Event} event */
  function countClick({ target }) {
    const link = target instanceof Element && target.closest("a[href], area[href]");
    if (!link) return;
    const url = new URL(String(link.getAttribute("href")), document.baseURI);
    if (!/^https?:$/.test(url.protocol)) return;
    const data = { url: url.href.slice(0, LONGEST_URL) };
    if (counted.has("downloads") && (link.hasAttribute("download") || FILES.test(url.pathname)))
      attrib.event("file-download", data);
    else if (counted.has("links") && url.host !== location.host) attrib.event("outbound-link", data);
  }

  function countScroll() {
    const { scrollHeight, clientHeight } = document.documentElement;
    const seen = (100 * (scrollY + clientHeight)) / Math.max(scrollHeight, 1);
    for (; depth < DEPTHS.length && seen >= DEPTHS[depth] - 1; depth += 1)
      attrib.event("scroll-depth", { percent: DEPTHS[depth], url: shown });
  }

  /** @param {string} url @returns {string} without the value that a link has brought */
  function clean(url) {
    return url.replace(/([?&])_attrib=[^&#]*(&?)/, (_, before, after) => (after ? before : ""));
  }

  /** @param {string | null} address @returns {URL | undefined} one of another domain of the site */
  function partner(address) {
    const url = safely(() => new URL(address || "", document.baseURI));
    if (!url || !isStored || (url.protocol !== "https:" && url.protocol !== location.protocol)) return undefined;
    const isOf = /** @param {string} name */ (name) => ("." + url.hostname).endsWith("." + name);
    return !isOf(home || location.hostname) && partners.some(isOf) ? url : undefined;
  }

  /** @param {Element} form @param {Element | null} button @returns {[Element, string]} what says where it is sent */
  function destination(form, button) {
    return button && button.hasAttribute("formaction") ? [button, "formaction"] : [form, "action"];
  }

  /** Ask for the value of the next link. */
  function prepare() {
    const now = Date.now();
    if (offer.owner === id && now - offer.made < AGING) return;
    const owner = id;
    const former = offer;
    offer = { ...former, value: former.owner === id ? former.value : "", owner, made: now };
    ask("link", { trackerId: owner }).then(
      ({ link }) => {
        if (isStored && owner === id) offer = { value: link || "", owner, made: now };
      },
      () => (offer = former),
    );
  }

  /** Add the value to a link or a form that is followed now, and take it away again: it counts once.
   * @param {Event} event */
  function decorate(event) {
    const { target } = event;
    if (!(target instanceof Element) || /** @type {MouseEvent} */ (event).button === 2) return;
    const button = event.type === "submit" ? /** @type {SubmitEvent} */ (event).submitter : null;
    const link = event.type === "submit" ? target : target.closest("a[href], area[href]");
    if (!link) return;
    const [holder, name] = event.type === "submit" ? destination(link, button) : [link, "href"];
    const address = holder.getAttribute(name);
    const url = partner(address);
    if (!url || address === null || !offer.value || offer.owner !== id || Date.now() - offer.made > OLDEST) return;
    const value = offer.value;
    offer = { value: "", owner: "", made: 0 };
    const method = (button && button.getAttribute("formmethod")) || link.getAttribute("method");
    if (event.type === "submit" && !/^post$/i.test(method || "")) {
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: LINK, value });
      link.append(field);
      setTimeout(() => field.remove());
    } else {
      url.searchParams.set(LINK, value);
      holder.setAttribute(name, url.href);
      setTimeout(() => holder.setAttribute(name, address));
    }
  }

  /** Let links and forms to other domains of the site carry the id. */
  function connect() {
    const isNear = /** @param {Event} event */ ({ target }) =>
      target instanceof Element && [target.closest("a[href], area[href]"), target.closest("form")].some(leads);
    const leads = /** @param {Element | null} link */ (link) =>
      link && partner(link.getAttribute(link.matches("form") ? "action" : "href"));
    for (const name of ["pointerover", "focusin", "touchstart"])
      addEventListener(name, (event) => safely(() => isNear(event) && prepare()), { capture: true, passive: true });
    for (const name of ["click", "auxclick", "submit"]) addEventListener(name, (event) => safely(() => decorate(event)), true);
    const look = () => safely(() => [...document.querySelectorAll("a[href], area[href], form")].some(leads) && prepare());
    if (document.readyState === "complete") look();
    else addEventListener("load", look);
  }

  /** Count what the page asks for in data-count. */
  function count() {
    if (counted.has("links") || counted.has("downloads"))
      for (const name of ["click", "auxclick"]) addEventListener(name, (event) => safely(() => countClick(event)), true);
    if (counted.has("forms"))
      addEventListener("submit", ({ target: form }) => safely(() => {
        if (form instanceof HTMLFormElement) attrib.event("form-submit", { form: form.id || form.name, url: shown });
      }), true);
    if (counted.has("scroll")) addEventListener("scroll", () => safely(countScroll), { passive: true });
    if (counted.has("hash")) addEventListener("hashchange", () => safely(() => show()));
    const [page] = performance.getEntriesByType("navigation");
    if (counted.has("missing") && /** @type {any} */ (page).responseStatus === 404)
      attrib.event("page-not-found", { url: shown, referrer: document.referrer.slice(0, LONGEST_URL) });
  }

  function start() {
    if (refuses && readCookie()) removeCookie();
    safely(() => {
      // Neither the address bar nor a page view has the value: whoever copies the address is somebody else.
      brought = new URL(location.href).searchParams.get(LINK) || "";
      if (brought) history.replaceState(history.state, "", clean(location.href));
    });
    safely(listen);
    addEventListener("load", () => safely(listen));
    if (isGranted || (!isDenied && readCookie())) grant();
    // A page may have changed its URL before the script was loaded: the one that was opened has the campaign.
    const opened = safely(() => performance.getEntriesByType("navigation")[0].name);
    show(opened && clean(opened));
    showReplaced();
    if (Array.isArray(early)) attrib.push(...early);
    if (wait && !isStored) setTimeout(release, wait);
    else release();
    safely(count);
    if (partners.length) safely(connect);
    watch("pushState", () => show());
    watch("replaceState", showReplaced);
    addEventListener("popstate", () => safely(() => show()));
    addEventListener("pagehide", () => safely(flush));
    addEventListener("pageshow", (event) => {
      // The browser shows a page again that it had kept.
      if (event.persisted) {
        shown = "";
        safely(() => show());
      }
    });
  }

  /** @type {Attrib} */
  const attrib = {
    trackerId: () => id,
    consent: (granted) => {
      safely(() => (granted ? grant() : deny(true)));
      safely(release);
    },
    event: (type, data = {}, options = {}) =>
      safely(() => {
        const { nonce = newId(), date } = options;
        // A copy: the page may change its data while the event waits.
        const copy = JSON.parse(JSON.stringify({ projectId: project, eventType: type, nonce, data, eventDate: date }));
        onceKnown(() => post("api/v1/events", nonce, { ...copy, trackerId: id }));
        return nonce;
      }),
    show: async (holdout, callback) => {
      let isShown = true;
      try {
        await new Promise((resolve) => onceKnown(() => resolve(undefined)));
        const asked = { holdout, opportunityId: newId(), trackerId: id, isPersistent: isStored };
        const referrer = document.referrer.slice(0, LONGEST_REFERRER);
        isShown = (await ask("show", { ...asked, referrer })).show !== false;
      } catch {
        // Without an answer, the page is as it would be without the experiment.
      }
      if (callback) safely(() => callback(isShown));
      return isShown;
    },
    push: (...calls) => {
      for (const call of calls) safely(() => /** @type {any} */ (attrib)[call[0]](...call.slice(1)));
    },
  };
  const early = window.attrib;
  window.attrib = attrib;
  if (document.prerendering) document.addEventListener("prerenderingchange", () => safely(start), { once: true });
  else safely(start);
})();
