/** The message of whatever was thrown. (`instanceof` fails for system errors where modules run in their own context.) */
export function errorMessage(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message);
  return String(error);
}
