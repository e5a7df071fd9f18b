import type * as replaced from '../../worker/data-converter';

/** The SDK loads the converter by a path: this program itself, which exports it. */
export const DATA_CONVERTER: typeof replaced.DATA_CONVERTER = { payloadConverterPath: __filename };
