//# allFunctionsCalledOnLoad
/// <reference path="./attrib.d.ts" />
/**
 * Measures the page views of a website. Served at /t.js; the how-to "Measure a site" describes its use.
 *
 * Nothing is kept in the browser before consent: until then the tracker id is in memory and ends with the page.
 * With consent it is in a cookie of the registrable domain, and links to other domains of the site carry it.
 */
(function () {
  "use strict";
  const early = /** @type {any} */ (window.attrib);
  // Modules and bundles have no current script.
  const current = /** @type {HTMLScriptElement | null} */ (document.currentScript);
  const { dataset, src } = current?.dataset.project
    ? current
    : document.querySelector("script[data-project]") || /** @type {any} */ ({});
  /** @type {any} */
  const settings = { ...dataset, ...early };
  const { project, key, domain, consent, gpc, dnt, link = "", url = src } = settings;
  if (early?.trackerId) {
    if (document.querySelector(`[data-project]:not([data-project="${project}"])`))
      console.warn("attrib: only one data-project counts");
    return;
  }
  if (!project || !url) {
    console.warn("attrib: data-project or data-url is missing");
    return;
  }
  // What is counted beside page views, such as "links downloads".
  const counted = new Set((settings.count || "").split(/\s+/));
  // Other domains of the site.
  const partners = link.toLowerCase().split(/\s+/).filter(Boolean);
  const base = new URL(settings.url?.replace(/[/]*$/, "/") || ".", settings.url ? location.href : src).href;
  const isDebugged = "debug" in settings || /(^|\.)localhost$/.test(location.hostname);
  const cookie = "attrib-" + project;
  // Whether the script is part of the site, so that answers may set the cookie.
  const isOwn = base.startsWith(location.origin + "/");
  // Cookie that counts for a moment after a withdrawal: pages, and answers on their way, may set the other one again.
  const latest = cookie + "~";
  const moment = isOwn ? 10 : 1;
  const shelf = cookie + ":";
  const channel = safely(() => new BroadcastChannel(cookie));
  const refuses =
    (navigator.globalPrivacyControl && gpc !== "ignore") || (navigator.doNotTrack === "1" && dnt === "respect");
  // How long a message that is not accepted is sent again.
  const DAY = 864e5;
  const FILES = /\.(7z|avi|csv|dmg|docx?|epub|exe|gz|mov|mp[34]|msi|ods|odt|pdf|pkg|pptx?|rar|tar|txt|wav|xlsx?|zip)$/i;

  /** @type {any} */
  const opened = performance.getEntriesByType("navigation")[0] || {};

  let id = newId();
  let isStored = false;
  let isGranted = consent === "granted";
  // URL of the page view that was counted last.
  let shown = "";
  /** The first page view, if it was sent without an id that lasts.
   * @type {Message | undefined} */
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
  let settling = 0;
  /** Whether what is sent now may have no answer: the page may end, or the id. */
  let isEnding = false;
  /** Milliseconds that the clock of the service is ahead.
   * @type {number | undefined} */
  let clockOffset;
  /** Whether events may go: the page view was answered. */
  let isDated = false;
  /** Value for the next link to another domain. */
  let offer = /** @type {{ value?: string, owner?: string, made: number }} */ ({ made: 0 });
  /** Percentage that the page was scrolled to. */
  let depth = 0;
  /** Messages that the service has not accepted yet.
   * @type {Set<Message>} */
  const waiting = new Set();

  /** Call a function; an error must not reach the page.
   * @template T @param {() => T} work @returns {T | undefined} */
  function safely(work) {
    try {
      return work();
    } catch {}
  }

  /** Hear of events, before the page does. @param {string} names @param {(event: any) => void} work */
  function on(names, work) {
    for (const name of names.split(" "))
      addEventListener(name, (event) => safely(() => work(event)), { capture: true, passive: true });
  }

  /** @returns {string} a random UUID, also on pages without TLS: browsers put one into the URL of an object */
  function newId() {
    return crypto.randomUUID?.() || URL.createObjectURL(new Blob()).slice(-36);
  }

  /** @returns {string} a UUID that begins with the time, by which the service finds whether it has the hit */
  function newHitId() {
    const time = "0" + Date.now().toString(16);
    return time.slice(0, 8) + "-" + time.slice(8) + "-7" + newId().slice(15);
  }

  /** @param {string} name @returns {string | undefined} the id in a cookie, if it is there */
  function read(name) {
    // Pages in a sandbox have no cookies.
    return safely(() => document.cookie.match("(?:^|; )" + name + "=([\\w-]{36}|)(?:;|$)")?.[1]);
  }

  /** @returns {string | undefined} the stored tracker id */
  function getCookie() {
    return read(latest) ?? read(cookie);
  }

  /** By default for thirteen months. Safari ends a cookie sooner that a script has written last.
   * @param {string} value @param {string} of domain @param {number} seconds @param {string} name */
  function setCookie(value, of = home, seconds = 34128000, name = cookie) {
    const more = (of && "; Domain=" + of) + (location.protocol === "https:" ? "; Secure" : "");
    safely(() => (document.cookie = `${name}=${value}; Path=/; Max-Age=${seconds}; SameSite=Lax${more}`));
  }

  /** @returns {string[]} domains that a cookie of this page may have, the widest first */
  function widening() {
    const labels = /^[\d.]+$|:/.test(location.hostname) ? [] : location.hostname.split(".");
    return labels.slice(1).map((_, count) => labels.slice(-2 - count).join("."));
  }

  /** Find the widest domain whose cookies the browser accepts: only the browser knows who may register names. */
  function findHome() {
    if (domain != null) return;
    // Another tab may be trying, too.
    const name = cookie + "-test" + id;
    home = widening().find((of) => {
      setCookie("1", of, 10, name);
      const isThere = safely(() => document.cookie.includes(name + "=1"));
      setCookie("", of, 0, name);
      return isThere;
    }) || "";
  }

  /** Remove the cookie of every domain. */
  function dropCookie() {
    for (const of of ["", home, ...widening()]) setCookie("", of, 0);
  }

  /** Ask the service, which has a second to answer.
   * @param {string} path @param {object} content @returns {Promise<any>} */
  async function ask(path, content) {
    const response = await fetch(base + path, {
      method: "POST",
      // Bodies of questions are short.
      body: JSON.stringify({ projectId: project, ...content, referrer: document.referrer.slice(0, 1024), ingestKey: key }),
      credentials: "omit",
      signal: AbortSignal.timeout(1e3),
    });
    return response.json();
  }

  /** @param {boolean} [isHeard] from another tab, which has told the others */
  function grant(isHeard) {
    look();
    isGranted = true;
    if (isStored || refuses || isAsking) return release();
    findHome();
    // An echo would come after consent was withdrawn again, and a cookie is no news.
    if (!isHeard && !getCookie()) {
      if (getCookie() === "") setCookie(id, home, moment, latest);
      channel?.postMessage(true);
    }
    isAsking = true;
    held ||= [];
    if (!brought) return store();
    // Whoever follows a link between the site's domains is the same visitor, whatever the cookie was here.
    ask("link", { link: brought }).then(
      ({ trackerId }) => store(/^[\w-]{36}$/.test(trackerId) ? trackerId : ""),
      () => store(),
    );
    brought = "";
  }

  /** Keep the id that lasts. @param {string} [given] */
  function store(given) {
    // Meanwhile the visitor may have withdrawn consent.
    if (!isGranted) return;
    const found = given || getCookie();
    if (found) id = found;
    // The service sets the cookie itself where it is part of the site.
    if (!isOwn || read(cookie) !== id) setCookie(id);
    if ((isStored = !!getCookie())) {
      if (isDated) safely(takeKept);
      // The page view again, under the id that lasts: the service joins the visit so far to it.
      if (landing) waiting.add({ ...landing, id: landing.id + "+", attempts: 0, timer: 0 });
      landing = undefined;
      // Otherwise another tab has withdrawn consent just now.
    } else if (found && !given) id = newId();
    // After a moment, another tab that was opened at the same instant has stored its id.
    if (found) settle();
    else settling = setTimeout(settle, 100);
  }

  /** Send what has waited for the id. */
  function settle() {
    clearTimeout(settling);
    isAsking = false;
    release();
    go();
  }

  /** @param {boolean} forgets whether the stored id is removed */
  function deny(forgets) {
    isGranted = false;
    if (isStored) id = newId();
    isStored = isAsking = false;
    if (!forgets) return;
    dropCookie();
    safely(() => shelved().forEach((name) => delete localStorage[name]));
    release();
  }

  /** Withdraw consent on all pages. */
  function withdraw() {
    // What happened before belongs to the id that the visitor had.
    flush();
    if (getCookie()) setCookie("", home, moment, latest);
    setTimeout(() => getCookie() === "" && dropCookie(), 900 * moment);
    deny(true);
    channel?.postMessage(false);
  }

  /** Look up consent where it is stored: another page may have withdrawn it. */
  function look() {
    const found = isStored && getCookie();
    if (found) id = found;
    else if (isStored) deny(true);
  }

  /** Hear one entry of the data layer: gtag("consent", "default" | "update", {...}).
   * @param {any} entry @param {boolean} isLast whether no other entry is known */
  function hear(entry, isLast) {
    if (entry?.[0] !== "consent" || !entry[2]) return;
    const { analytics_storage: state, region, wait_for_update: time } = entry[2];
    const isUpdate = entry[1] === "update";
    if (state === "denied") {
      isDenied = true;
      if (isUpdate) withdraw();
      else {
        deny(false);
        wait = Math.max(wait, Math.min(+time || 0, 2e3));
      }
    } else if (state === "granted" && (isUpdate || (!region && !isDenied))) {
      // A default of one region is not known to be that of the visitor; a denial counts everywhere.
      isGranted = true;
      if (isLast || isUpdate) grant();
    }
  }

  /** Hear the entries of the data layer so far, and those to come. */
  function listen() {
    const layer = window.dataLayer;
    if (!Array.isArray(layer) || "attrib" in layer.push) return;
    layer.slice().forEach((entry) => hear(entry, false));
    if (isGranted) grant();
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

  /** Send something once the visitor is known.
   * @param {string} path below the folder of the script @param {string} id @param {object} content */
  function post(path, id, content) {
    const message = { id, path, content, made: Date.now(), attempts: 0 };
    // On another page, the visitor may have agreed meanwhile.
    if (!isDenied && getCookie()) grant();
    onceKnown(() => begin(message));
  }

  /** Send what was not sent; events after the answer to the page view, so that both have the times of one clock. */
  function go() {
    for (const message of waiting) if (!message.attempts && (isDated || isEnding || message.path === "c")) send(message);
  }

  /** @param {Message} message */
  function begin(message) {
    waiting.add(message);
    if (message.path === "c" && !isStored) landing ||= message;
    go();
    // Events do not wait longer.
    setTimeout(answered, 1e4, message);
  }

  /** Send a message until it is accepted, for a day at most; with consent, the next page goes on.
   * @param {Message} message */
  function send(message) {
    look();
    const sender = id;
    message.attempts += 1;
    fetch(base + message.path, {
      method: "POST",
      body: body(message),
      // Browsers have 64 KiB for requests that outlive their page.
      keepalive: isEnding,
      // The answer may have a cookie, which a page that has ended could not remove.
      credentials: isStored && !isEnding ? "same-origin" : "omit",
      headers: key && message.path !== "c" ? { "X-Ingest-Key": key } : {},
    })
      .then(async (response) => {
        // Chromium counts an answer that nobody reads as under way.
        const text = await response.text();
        // It may have set the cookie again since consent was withdrawn.
        if (sender !== id && read(cookie) === sender) isStored ? setCookie(id) : dropCookie();
        else if (getCookie() === "") dropCookie();
        const { status, headers, ok } = response;
        if (status === 429 || status >= 500) retry(message, headers.get("Retry-After"));
        else finish(message, text);
        if (isDebugged && !ok) console.warn("attrib:", message.content, text);
      })
      .catch(() => retry(message));
    message.isLast = isEnding;
  }

  /** @param {Message} message @param {string | null} [seconds] */
  function retry(message, seconds) {
    message.isLast = false;
    if (Date.now() - message.made > DAY) finish(message, "");
    answered(message);
    if (!waiting.has(message)) return;
    keep(message);
    // Many that the service has put off come back one after the other, 25 in a second.
    const pause = seconds ? +seconds + (Math.random() * waiting.size) / 25 : 2 ** (message.attempts - 1);
    clearTimeout(message.timer);
    message.timer = setTimeout(send, Math.min(pause || 1, 60) * 1e3, message);
  }

  /** @param {Message} message @param {string} text */
  function finish(message, text) {
    waiting.delete(message);
    clearTimeout(message.timer);
    if (isStored) safely(() => delete localStorage[shelf + message.id]);
    if (message.path === "c") safely(() => (clockOffset ??= JSON.parse(text).clockOffset));
    answered(message);
  }

  /** Send the events that have waited for the page view.
   * @param {{ path: string }} message */
  function answered({ path }) {
    if (isDated || path !== "c") return;
    isDated = true;
    if (isStored) safely(takeKept);
    go();
  }

  /** The difference of both times of the browser's clock counts, so that the clock may be wrong.
   * @param {Message} message */
  function body({ path, content, made }) {
    const date = new Date(made).toISOString();
    const more =
      path === "c"
        ? { date, isPersistent: isStored, hasConsent: isStored, cookieDomain: home, ingestKey: key }
        : { eventDate: date };
    const clock = "eventDate" in content ? {} : { ...more, sentAt: new Date().toISOString(), clockOffset };
    return JSON.stringify({ projectId: project, ...content, trackerId: id, ...clock });
  }

  /** @returns {string[]} names of what is kept for the next page */
  function shelved() {
    return Object.keys(localStorage).filter((name) => name.startsWith(shelf));
  }

  /** Keep a message where the next page finds it.
   * @param {Message} message */
  function keep(message) {
    safely(() => {
      if (isStored && shelved().length < 500) localStorage[shelf + message.id] = JSON.stringify({ ...message, attempts: 0 });
    });
  }

  /** Send what earlier pages could not. */
  function takeKept() {
    for (const name of shelved()) {
      const message = safely(() => JSON.parse(localStorage[name]));
      if (!(Date.now() - message?.made < DAY)) delete localStorage[name];
      else if (message.made < performance.timeOrigin) waiting.add(message);
    }
  }

  /** Send without waiting what has no answer yet.
   * @param {boolean} [isOver] whether events under way are lost, too */
  function flush(isOver) {
    isEnding = true;
    waiting.forEach(keep);
    for (const message of waiting) if (!message.isLast && (isOver || !message.attempts || message.path === "c")) send(message);
    isEnding = false;
  }

  /** Do something once the tracker id is that of the visitor.
   * @param {(value?: any) => void} work */
  function onceKnown(work) {
    held ? held.push(work) : work();
  }

  /** Do what waits; further things do not wait. */
  function release() {
    if (isAsking) return;
    const work = held || [];
    held = undefined;
    work.forEach(safely);
  }

  /** @param {string} url @returns {string} what makes it another page: without the fragment, unless it is a route */
  function pageOf(url) {
    return counted.has("hash") ? url : url.split("#")[0];
  }

  /** Count a page view, unless the page was counted already.
   * @param {string} [page] its URL @param {boolean} [isNew] whether it is one that has no address */
  function show(page = location.href, isNew = false) {
    const url = pageOf(page);
    if (url === shown && !isNew) return;
    const hitId = newHitId();
    post("c", hitId, {
      hitId,
      // The service reads no more of an address.
      pageUrl: page.slice(0, 4096),
      referrer: (shown || document.referrer).slice(0, 4096),
      timezoneOffset: new Date().getTimezoneOffset(),
      // A browser that a program drives says so.
      isAutomated: navigator.webdriver || undefined,
    });
    shown = url;
    depth = 0;
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
   * @param {any} event */
  function countClick({ target }) {
    const link = linkOf(target);
    if (!link) return;
    const url = new URL(link.getAttribute("href") || "", document.baseURI);
    if (!/^http/.test(url.protocol)) return;
    const data = { url: short(url.href) };
    if (counted.has("downloads") && (link.hasAttribute("download") || FILES.test(url.pathname)))
      note("file-download", data);
    else if (counted.has("links") && url.host !== location.host) note("outbound-link", data);
  }

  /** @param {string | undefined} text @returns {string | undefined} what a field takes; an empty text is left out */
  function short(text) {
    return text?.slice(0, 1024) || undefined;
  }

  /** @param {string} type of what was counted beside page views @param {object} data */
  function note(type, data) {
    attrib.event(type, { url: short(shown), ...data });
  }

  function countScroll() {
    const { scrollHeight, clientHeight } = document.documentElement;
    const seen = (100 * (scrollY + clientHeight)) / (scrollHeight || 1);
    while (depth < 100 && seen >= depth + 24) note("scroll-depth", { percent: (depth += 25) });
  }

  /** @param {string} url @returns {string} without the value that a link has brought, and without a password */
  function clean(url) {
    return url
      .replace(/^(\w+:..)[^/]*@/, "$1")
      .replace(/([?&])_attrib=[^&#]*(&?)/, (_, before, after) => (after ? before : ""));
  }

  /** @param {string | null} address @returns {URL | undefined} one of another domain of the site */
  function partner(address) {
    const url = safely(() => new URL(address || "", document.baseURI));
    if (!url || !isStored || !["https:", location.protocol].includes(url.protocol)) return;
    const isOf = /** @param {string} name */ (name) => ("." + url.hostname).endsWith("." + name);
    if (!isOf(home || location.hostname) && partners.some(isOf)) return url;
  }

  /** @param {any} target of an event @returns {Element | null} */
  function linkOf(target) {
    return target.closest("a[href], area[href]");
  }

  /** Ask for the value of the next link. */
  function prepare() {
    const former = offer;
    const owner = id;
    const made = Date.now();
    if (former.owner === owner && made - former.made < 6e4) return;
    offer = { ...(former.owner === owner && former), owner, made };
    ask("link", { trackerId: owner }).then(
      ({ link: value }) => {
        if (isStored && owner === id) offer = { value, owner, made };
      },
      () => (offer = former),
    );
  }

  /** Add the value to a link or a form that is followed now, and take it away again: it counts once.
   * @param {any} event */
  function decorate({ type, target, submitter, button }) {
    look();
    const isForm = type === "submit";
    const link = isForm ? target : linkOf(target);
    if (!link || button === 2) return;
    const own = /** @param {string} name */ (name) => submitter?.getAttribute("form" + name);
    const holder = own("action") ? submitter : link;
    const name = holder === link ? (isForm ? "action" : "href") : "formaction";
    const address = holder.getAttribute(name);
    const url = partner(address);
    const { value, owner, made } = offer;
    if (!url || !address || !value || owner !== id || Date.now() - made > 11e4) return;
    offer = { made: 0 };
    if (isForm && !/^post$/i.test(own("method") || link.getAttribute("method"))) {
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: "_attrib", value });
      link.append(field);
      setTimeout(() => field.remove());
    } else {
      // The rest stays as it is written: a signature may cover it.
      url.search += (url.search && "&") + "_attrib=" + value;
      holder.setAttribute(name, url.href);
      setTimeout(() => holder.setAttribute(name, address));
    }
  }

  /** Let links and forms to other domains of the site carry the id. */
  function connect() {
    const leads = /** @param {Element | null} link */ (link) =>
      link && partner(link.getAttribute(link.matches("form") ? "action" : "href"));
    const near = /** @param {any} event */ ({ target }) => [linkOf(target), target.closest("form")].some(leads) && prepare();
    on("pointerover focusin touchstart", near);
    on("click auxclick submit", decorate);
    const find = () => [...document.querySelectorAll("a[href], area[href], form")].some(leads) && prepare();
    find();
    on("load", find);
  }

  /** Count what the page asks for in data-count. */
  function count() {
    on("click auxclick", countClick);
    // A field may be called id or name.
    if (counted.has("forms"))
      on("submit", ({ target: { attributes: named } }) => note("form-submit", { form: short((named.id || named.name)?.value) }));
    if (counted.has("scroll")) on("scroll", countScroll);
    if (counted.has("missing") && opened.responseStatus === 404)
      note("page-not-found", { referrer: short(document.referrer) });
  }

  function start() {
    if (refuses) dropCookie();
    safely(() => {
      // Neither the address bar nor a page view has the value: whoever copies the address is somebody else.
      brought = new URLSearchParams(location.search).get("_attrib") || "";
      if (brought) history.replaceState(history.state, "", clean(location.href));
    });
    safely(listen);
    on("load", listen);
    if (isGranted) grant();
    // A page may have changed its URL before the script was loaded: the one that was opened has the campaign.
    show(opened.name && clean(opened.name));
    showReplaced();
    if (Array.isArray(early)) attrib.push(...early);
    if (wait && !isStored) setTimeout(release, wait);
    else release();
    safely(count);
    if (partners.length) safely(connect);
    watch("pushState", show);
    watch("replaceState", showReplaced);
    // Also of a change of the fragment.
    on("popstate", () => show());
    // Routers that use the Navigation API do not call the history; what both report counts once.
    const turn = /** @param {any} event */ ({ navigationType: type }) => safely(type === "replace" ? showReplaced : show);
    window.navigation?.addEventListener("currententrychange", turn);
    // Phones end hidden pages without a word. Firefox stops the first of both when a tab is closed: the second goes on.
    on("pagehide visibilitychange", ({ type }) => {
      // The page may send more when it hears that it ends.
      const isOver = isEnding || type === "pagehide";
      if (!isOver && !document.hidden) return;
      isEnding = true;
      settle();
      flush(true);
      isEnding = isOver;
    });
    // What the visitor chooses in other tabs, unless the cookie has later news.
    if (channel)
      channel.onmessage = ({ data }) =>
        safely(() => (data ? isDenied || getCookie() === "" || grant(true) : (getCookie() || id) === id && deny(true)));
    on("pageshow", ({ persisted }) => {
      // The browser shows a page again that it had kept.
      isEnding = false;
      if (persisted) {
        shown = "";
        show();
      }
    });
  }

  /** @type {Attrib} */
  const attrib = {
    trackerId: () => {
      safely(look);
      return id;
    },
    consent: (granted) => safely(granted ? grant : withdraw),
    event: (type, data = {}, options = {}) =>
      safely(() => {
        const { nonce = newId(), date } = options;
        // A copy: the page may change its data while the event waits, and may cut a text within an emoji.
        const copy = JSON.parse(
          JSON.stringify({ eventType: type, nonce, data, eventDate: date }, (_, text) => text?.toWellFormed?.() ?? text),
        );
        post("api/v1/events" + (isDebugged ? "/sync" : ""), nonce, copy);
        return nonce;
      }),
    view: (url = location.href) => safely(() => show(new URL(url, location.href).href, true)),
    show: async (holdout, callback) => {
      let isShown = true;
      try {
        await new Promise(onceKnown);
        look();
        ({ show: isShown = true } =
          await ask("show", { holdout, opportunityId: newId(), trackerId: id, isPersistent: isStored }));
      } catch {
        // Without an answer, the page is as it would be without the experiment.
      }
      safely(() => callback?.(isShown));
      return isShown;
    },
    push: (...calls) => {
      for (const call of calls) safely(() => /** @type {any} */ (attrib)[call[0]](...call.slice(1)));
    },
  };
  window.attrib = attrib;
  if (document.prerendering) document.addEventListener("prerenderingchange", () => safely(start));
  else safely(start);
})();
