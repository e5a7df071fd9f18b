#!/usr/bin/env node
// First: it guards the process before anything else is loaded.
import '../main';

/** For the Temporal client, which loads it from this file. */
export { payloadConverter } from '../../contracts/payload-converter';
