/** What t.js puts into a page. */
interface Attrib {
  /** The tracker id of now, for events that a server sends; it may change when consent is given or withdrawn. */
  trackerId(): string;
  /** Give consent to keep the tracker id in a cookie, or withdraw it, which removes the cookie. */
  consent(granted: boolean): void;
  /** Send an event of this browser; returns its nonce, or undefined if it cannot be sent as JSON. */
  event(
    type: string,
    data?: Record<string, unknown>,
    options?: { nonce?: string; date?: string },
  ): string | undefined;
  /** Count a view that changes no address, such as a step of a form; by default under the present address. */
  view(url?: string): void;
  /** Whether to show the placement of a holdout; logs the opportunity. Waits for a consent banner, as page views do;
   * true if the service then does not answer within a second. */
  show(holdout: string, callback?: (isShown: boolean) => void): Promise<boolean>;
  /** Make calls, such as ["event", "order", {...}]; an array in its place collects them until the script is there. */
  push(...calls: [keyof Attrib, ...unknown[]][]): void;
}

interface Message {
  id: string;
  /** Below the folder of the script. */
  path: string;
  content: object;
  /** Milliseconds since 1970. */
  made: number;
  attempts: number;
  timer?: number;
  /** Whether it is under way, or was sent, in a way that outlives the page. */
  isLast?: boolean;
  /** Whether the next page finds it. */
}

interface Window {
  attrib?: Attrib | [keyof Attrib, ...unknown[]][];
  dataLayer?: unknown[];
  navigation?: EventTarget;
}

interface Navigator {
  globalPrivacyControl?: boolean;
}

interface Document {
  prerendering?: boolean;
}
