import { EventEmitter } from "node:events";

/** In place of the function that the module dynalite exports. Delays and sizes have no effect; path and ssl throw. */
declare function dynalite(options?: Record<string, unknown>): dynalite.Server;

declare namespace dynalite {
  /** A server in memory with the methods of dynalite's that test tools use. */
  interface Server extends EventEmitter {
    readonly listening: boolean;
    listen(port?: number | string, callback?: () => void): this;
    listen(port: number | string, host: string, callback?: () => void): this;
    listen(options: { port?: number | string; host?: string }, callback?: () => void): this;
    address(): { address: string; family: string; port: number } | null;
    close(callback?: (error?: Error) => void): this;
  }
}

export = dynalite;
