/** The path of the binary: that of STATOR_BINARY, or that of the package for this platform. */
export function binary(): string;

/** An error of the API; its name is the code, such as ResourceNotFoundException. */
export class StatorError extends Error {
  status: number;
}

/** Sends one request of the API. The server must not verify signatures. */
export function send(endpoint: string, operation: string, input?: object): Promise<any>;

/** The environment by which AWS SDKs find an endpoint. */
export function environment(endpoint: string): Record<string, string>;

export interface Fork {
  name: string;
  /** URL for the `endpoint` of an SDK. */
  endpoint: string;
  remove(): Promise<void>;
}

/** Makes a copy-on-write database of the one at an endpoint. */
export function fork(endpoint: string, name?: string): Promise<Fork>;

export interface Server {
  endpoint: string;
  pid: number;
  environment(): Record<string, string>;
  fork(name?: string): Promise<Fork>;
  send(operation: string, input?: object): Promise<any>;
  stop(): Promise<void>;
}

export interface StartOptions {
  /** Arguments of `stator serve`; `["--in-memory"]` by default. */
  args?: string[];
  /** 0, the default, is a free port. */
  port?: number;
  host?: string;
  env?: NodeJS.ProcessEnv;
  onLog?: (text: string) => void;
}

/** Starts a server, by default in memory on a free port, which ends with this process. */
export function start(options?: StartOptions): Promise<Server>;

/** The configuration in stator.config.js, for Jest and Vitest. */
export interface Config {
  /** Tables that each test file begins with, as for CreateTable. */
  tables?: object[];
  /** Stores what each test file begins with. */
  seed?: (server: Server) => Promise<void>;
  args?: string[];
}
