/** What the Web UI of Temporal calls the things that people are told to use there; a test compares it with the dev server's. */
export const WEB_UI = {
  actions: 'More Actions',
  sendSignal: 'Send a Signal',
  signalName: 'Signal name',
  data: 'Data',
  encoding: 'json/plain',
  submit: 'Submit',
  start: 'Start Workflow',
  details: 'User Metadata',
  queries: 'Queries',
} as const;

/**
 * How a signal is sent there. Tab comes before the button: the field formats what was pasted when it is left, the form
 * grows, and a click on the button would miss it and may close the form.
 *
 * @param signal - its name, as Markdown
 * @param what - what is pasted
 */
export function sendInWebUi(signal: string, what: string): string {
  const { actions, sendSignal, data, submit } = WEB_UI;
  return `${actions}, ${sendSignal}, ${signal}; paste ${what} into ${data}, press Tab, ${submit}`;
}
