/**
 * The payload converter of workers and clients, as a path because the SDK loads it itself. The build of `runbook.cjs`
 * replaces this module.
 */
export const DATA_CONVERTER = { payloadConverterPath: require.resolve('../contracts/payload-converter') };
