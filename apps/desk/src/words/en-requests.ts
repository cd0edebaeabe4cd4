/** Texts of permission requests in English. */
export const enRequests = {
  'requests.title': 'Permission requests',
  'requests.update': 'An agent asks for more permissions',
  'requests.folder': 'An agent asks to work in a new folder',
  'requests.because': 'It says: {{reason}}',
  'requests.left': '{{time}} left',
  'requests.approve': 'Approve these changes',
  'requests.deny': 'Deny them',
  'requests.cannot': 'Cannot be approved now: {{why}}',
} as const;
